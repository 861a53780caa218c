#!/usr/bin/env bash
# quickstart_test.sh SOURCE_FOLDER: examples/quickstart.sh in a copy of its own, with a package
# manager and a build that only take notes.
set -euo pipefail
source_folder=$(cd "$1" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export CALLS=$scratch/calls BROKEN=none
tree=$scratch/tree
mkdir -p "$scratch/bin" "$tree/examples/gpt" "$tree/tests"
cp "$source_folder/examples/quickstart.sh" "$tree/examples/"
cp "$source_folder/tests/packages.sh" "$tree/tests/"
echo 'import os; open(os.environ["CALLS"], "a").write("prepare\n")' >"$tree/examples/gpt/prepare.py"

fake() { # fake NAME BODY
  printf '#!/bin/bash\n%s\n' "$2" >"$scratch/bin/$1"
  chmod +x "$scratch/bin/$1"
}
# shellcheck disable=SC2016  # the fakes expand these
{
  fake dpkg-query 'exit 1'
  fake id 'echo 0'
  fake apt-get 'echo "apt-get $*" >>"$CALLS"; [ "$BROKEN" != "apt $1" ]'
  fake attune 'echo "attune $*" >>"$CALLS"; [ "$1" = --version ] || exit 5'
  fake cmake 'echo "cmake $*" >>"$CALLS"
    [ "$BROKEN" != cmake ] || { echo "some compiler error"; exit 1; }
    if [ "$1" = --build ]; then mkdir -p build/bin; cp "$(command -v attune)" build/bin/; fi'
}
export PATH=$scratch/bin:$PATH

fail() {
  echo "FAILED: $*"
  echo "-- output"; cat "$scratch/output"
  echo "-- calls"; cat "$CALLS"
  exit 1
}
run() { # run ARGUMENT...: from another folder, as a user may
  : >"$CALLS"
  status=0
  (cd / && bash "$tree/examples/quickstart.sh" "$@") >"$scratch/output" 2>&1 || status=$?
}
called() { grep -q -- "$1" "$CALLS" || fail "does not call: $1"; }
never() { ! grep -q -- "$1" "$CALLS" || fail "calls: $1"; }
says() { grep -qF -- "$1" "$scratch/output" || fail "does not say: $1"; }

run --help
[ "$status" -eq 0 ] || fail "--help"
says "--no-run"
[ ! -s "$CALLS" ] || fail "--help does something"

run --with-torches
[ "$status" -eq 2 ] || fail "an unknown argument"
says "error: unknown argument '--with-torches'"
[ ! -s "$CALLS" ] || fail "an unknown argument does something"

run --no-run
[ "$status" -eq 0 ] || fail "--no-run"
called 'apt-get install .* cmake'
never python3-torch
called 'cmake -S . -B build .*CMAKE_BUILD_TYPE=Release'
called 'cmake --build build .*attune attune-wrapper'
never prepare
never 'attune .*run'

# What fails is named in one line at the end, and nothing after it is tried.
BROKEN="apt install" run --real
[ "$status" -ne 0 ] || fail "apt-get install failed"
tail -n 1 "$scratch/output" | grep -q '^error: .*step 1 of 4 (packages)' || fail "apt: last line"
never '^cmake'
BROKEN=cmake run --real
[ "$status" -ne 0 ] || fail "the build failed"
tail -n 1 "$scratch/output" | grep -q '^error: .*step 2 of 4 (build)' || fail "build: last line"
never prepare

# The main job is simulated: no PyTorch, nothing prepared.
run
never python3-torch
never prepare
called "attune --state $tree/build/quickstart run examples/glm-4.5-b200x128/recipe.yaml --launcher sim"
[ "$status" -eq 5 ] || fail "the exit code of the rehearsal is lost: $status"
BROKEN=cmake run
tail -n 1 "$scratch/output" | grep -q '^error: .*step 2 of 3 (build)' || fail "build: last line"

run --real
called 'apt-get install .* python3-torch'
if /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  called prepare
  called "attune --state $tree/examples/gpt/prepared/state run examples/gpt/recipe.yaml --budget auto"
  # The campaign's own exit code is the script's, without a second message.
  [ "$status" -eq 5 ] || fail "the exit code of attune is lost: $status"
  ! grep -q '^error: quickstart' "$scratch/output" || fail "a message about attune's exit code"
else
  [ "$status" -eq 1 ] || fail "no torch"
  says "error: /usr/bin/python3 cannot import torch"
  never 'attune .*run'
fi
echo "quickstart.sh: ok"
