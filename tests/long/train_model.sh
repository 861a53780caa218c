#!/usr/bin/env bash
# Trains the tiny language model of tests/real/llm again: `bash tests/long/train_model.sh [SECONDS]` of
# CPU time (default 600). Writes tests/real/llm/model.gguf; the last line says how many answers of
# states that it has not seen are right.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec /usr/bin/python3 -u tests/real/llm/train.py tests/real/llm/model.gguf --seconds "${1:-600}"
