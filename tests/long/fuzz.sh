#!/usr/bin/env bash
# Fuzzes every reader of foreign bytes with libFuzzer under the address and undefined-behaviour
# sanitizers: `bash tests/long/fuzz.sh [SECONDS] [TARGET...]`; ten minutes each by default. Builds with
# clang in build-fuzz/. What is found lies in build-fuzz/found/TARGET.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:-600}
shift || true
targets=("$@")
if [ "${#targets[@]}" -eq 0 ]; then
  targets=(log trace nsys reply recipe)
fi

declare -A seeds=([log]=tests/cases/logs [trace]=tests/cases/traces [nsys]=tests/data/nsys
  [reply]=tests/fuzz/reply_seeds [recipe]=tests/fuzz/recipe_seeds)
for target in "${targets[@]}"; do
  if [ -z "${seeds[$target]:-}" ]; then
    echo "error: no target '$target'; there are: ${!seeds[*]}" >&2
    exit 2
  fi
done
command -v clang++ >/dev/null || {
  echo "error: libFuzzer needs clang++ (apt-get install clang)" >&2
  exit 1
}

build=build-fuzz
CC=clang CXX=clang++ cmake -S . -B "$build" -G Ninja --log-level=WARNING \
  -DCMAKE_BUILD_TYPE=Sanitize -DCMAKE_CXX_FLAGS_SANITIZE="-O1 -g1 -fsanitize=fuzzer-no-link" \
  -DATTUNE_SANITIZE=ON -DATTUNE_FUZZ=ON
cmake --build "$build" --target "${targets[@]/%/_fuzz}"

for target in "${targets[@]}"; do
  corpus=$build/corpus/$target
  found=$build/found/$target
  mkdir -p "$corpus" "$found"
  cp "${seeds[$target]}"/* "$corpus/"
  echo "== $target, $seconds s"
  "$build/tests/fuzz/${target}_fuzz" "$corpus" -max_total_time="$seconds" -max_len=65536 \
    -timeout=20 -rss_limit_mb=2048 -artifact_prefix="$found/" -print_final_stats=1
done
