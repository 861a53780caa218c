#!/usr/bin/env bash
# Installs what is missing, builds with sanitizers and runs every test. Safe to run again at any
# time: what is installed and built stays, and nothing is fetched when nothing is missing.
#
#   ATTUNE_CORPORA   folder of reference corpora; tests that need them are skipped when it is unset
#   ATTUNE_JOBS      compile jobs at once (default: number of cores)
#   Arguments are passed on to ctest: tests/run.sh -R base
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/packages.sh

build=build-test
jobs=${ATTUNE_JOBS:-$(nproc)}

step() { printf '\n== %s\n' "$*"; }

step "1/4 packages"
attune_install build test torch
# Without them the tests on a real Slurm or over a real sshd are skipped, and say so.
attune_install slurm || true
attune_install ssh || true

step "2/4 configure ($build: -O1, address and undefined-behaviour sanitizers, warnings are errors)"
# The compiler cache then holds for a checkout in another folder too.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
# The build type is a name of its own because the root CMakeLists.txt sets the flags of the others.
cmake -S . -B "$build" -G Ninja --log-level=WARNING \
  -DCMAKE_BUILD_TYPE=Sanitize -DCMAKE_CXX_FLAGS_SANITIZE="-O1 -g1" \
  -DATTUNE_SANITIZE=ON -DATTUNE_WERROR=ON -DATTUNE_TESTS=ON

step "3/4 build ($jobs jobs)"
cmake --build "$build" --parallel "$jobs"

step "4/4 test"
if [ -n "${ATTUNE_CORPORA:-}" ]; then
  echo "  reference corpora: $ATTUNE_CORPORA"
else
  echo "  ATTUNE_CORPORA is not set: tests against the reference corpora are skipped"
fi
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
# Of a program that fails, only what failed (and what was skipped, and why).
export GTEST_BRIEF=1
# Tests with the label "real" have RUN_SERIAL: they start jobs and measure, and so run alone.
log=$build/ctest.log
status=0
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel 2 "$@" 2>&1 |
  tee "$log" || status=$?

# Many of these programs watch real processes and daemons, and a machine that stands still at the wrong
# moment can upset one. Up to two that failed are run once more, alone, and named: each is a fault to
# be found. More are never weather.
second_try=
failed=$build/Testing/Temporary/LastTestsFailed.log
if [ "$status" -eq 8 ] && [ -s "$failed" ] && [ "$(wc -l < "$failed")" -le 2 ]; then
  again=$(cut -d: -f2 "$failed" | paste -sd ' ')
  step "second try, alone: $again"
  if ctest --test-dir "$build" --output-on-failure --no-tests=error --rerun-failed; then
    status=0
    second_try="; then passed alone, a fault to be found: $again"
  fi
fi

skips=$build/Testing/Temporary/LastTest.log
if [ -f "$skips" ]; then
  # GoogleTest prints the reason on the line after "file:line: Skipped".
  reasons=$(grep -A1 -E ': Skipped$' "$skips" | grep -vE ': Skipped$|^--$' | sort | uniq -c || true)
  if [ -n "$reasons" ]; then
    printf '\nskipped inside test programs:\n%s\n' "$reasons"
  fi
fi
printf '\nslowest ten:\n'
sed -nE 's/^ *[0-9]+\/[0-9]+ +Test +#[0-9]+: +([^ ]+) .* ([0-9.]+) sec.*/\2 \1/p' "$log" |
  sort -rn | head -n 10 | awk '{ printf "  %8.2f s  %s\n", $1, $2 }'
printf '\n'
printf '%s%s\n' "$(grep -E 'tests passed|No tests were found' "$log" | tail -n 1 || true)" "$second_try"
exit "$status"
