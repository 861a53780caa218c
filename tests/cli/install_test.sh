#!/usr/bin/env bash
# install_test.sh BUILD: what `cmake --install` puts under a prefix runs from there, with nothing of
# the build or the source tree in sight.
set -euo pipefail
build=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix

fail() {
  echo "FAILED: $*"
  [ ! -e "$scratch/said" ] || sed 's/^/  /' "$scratch/said"
  exit 1
}
attune() { # attune CODE WORD...
  local code=0 wanted=$1
  shift
  env -i PATH=/usr/bin:/bin HOME="$scratch" LC_ALL=C.UTF-8 \
    LSAN_OPTIONS="${LSAN_OPTIONS:-}" ATTUNE_STATE_DIR="$scratch/state" \
    "$prefix/bin/attune" "$@" >"$scratch/said" 2>&1 || code=$?
  [ "$code" = "$wanted" ] || fail "attune $* ended with $code, not $wanted"
}
says() { grep -qF -- "$1" "$scratch/said" || fail "does not say: $1"; }

cmake --install "$build" --prefix "$prefix" >"$scratch/said" || fail "cmake --install"
[ -x "$prefix/libexec/attune/attune-wrapper" ] || fail "no wrapper"
[ ! -e "$prefix/share/attune/examples/gpt/prepared" ] || fail "somebody's checkpoint was installed"
cd "$scratch"

attune 0 --version
attune 0 init -o mine.yaml
says "mine.yaml"
grep -qF "$prefix/share/attune/examples/gpt/recipe.yaml" mine.yaml || fail "not the installed example"
attune 0 check mine.yaml

# The installed skill is the built-in one, and may be named as one's own.
attune 0 plan "$prefix/share/attune/examples/glm-4.5-b200x128/recipe.yaml" --show-prompt
cp said prompt
attune 0 plan "$prefix/share/attune/examples/glm-4.5-b200x128/recipe.yaml" --show-prompt \
  --skill "$prefix/share/attune/skill"
cmp -s said prompt || fail "the installed skill is another one"

# A job that fails at once: the installed wrapper ran it, and its last words are the evidence.
cat >job.yaml <<'YAML'
schema: attune/recipe/1
name: job
framework: custom
workload: {model: m, gpus: 1, gpu: cpu, seq_length: 8, global_batch: 8, precision: fp32}
command: [/bin/sh, -c, "echo installed and run; exit 3", job, "{{args}}"]
args: {micro-batch-size: 1}
declare:
  - {lever: micro_batch, flag: --micro-batch-size, values: [1, 2], class: batching}
log: {dialect: megatron-lm}
measure: {calibration_runs: 1}
profile: {off: true}
budget: {gpu_hours: 1, run_limit: 1m}
YAML
attune 7 run job.yaml --no-input
attune 0 logs r001 --no-input
says "installed and run"
echo ok
