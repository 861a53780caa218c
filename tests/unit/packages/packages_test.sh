#!/usr/bin/env bash
# packages_test.sh PACKAGES.SH: the installer against a package manager that only takes notes.
set -euo pipefail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin" "$scratch/nosudo"
export INSTALLED=$scratch/installed CALLS=$scratch/calls WHO=0 UPDATE=0

fake() { # fake NAME BODY
  printf '#!/bin/bash\n%s\n' "$2" >"$scratch/bin/$1"
  chmod +x "$scratch/bin/$1"
}
# shellcheck disable=SC2016  # the fakes expand these
{
  fake dpkg-query 'grep -qx "${@: -1}" "$INSTALLED" && echo -n installed || exit 1'
  fake apt-get 'echo "apt-get $*" >>"$CALLS"; [ "$1" != update ] || exit "$UPDATE"'
  fake sudo 'echo "sudo $*" >>"$CALLS"; "$@"'
  fake id 'echo "$WHO"'
}
PATH=$scratch/bin:$PATH
. "$1"

fail() {
  echo "FAILED: $*"
  echo "-- output"; cat "$scratch/output" || true
  echo "-- calls"; cat "$CALLS"
  exit 1
}
run() { # run GROUP...: fills output and calls, and keeps the status
  : >"$CALLS"
  status=0
  attune_install "$@" >"$scratch/output" 2>&1 || status=$?
}
calls() { cat "$CALLS"; }
says() { grep -qF -- "$1" "$scratch/output" || fail "does not say: $1"; }

# A fault in the table would only show on a fresh machine.
attune_package_table | awk 'NF < 3 || $1 !~ /^[a-z]+$/ { bad = 1 } END { exit bad }' ||
  fail "every row is: group package why"
[ -z "$(attune_package_table | awk '{ print $1, $2 }' | sort | uniq -d)" ] || fail "a row twice"
! attune_packages build | grep -q torch || fail "the build alone needs no PyTorch"
attune_packages test torch | sort | uniq -d | grep . && fail "a package twice"

# Everything is there: no call at all, so no network.
attune_packages build test torch >"$INSTALLED"
run build test torch
[ "$status" -eq 0 ] || fail "all installed"
[ -z "$(calls)" ] || fail "called the package manager with nothing to do"
says "are there"

# Two are missing: one refresh, one install of exactly these, each with its reason.
attune_packages build test | grep -vx -e ccache -e libre2-dev >"$INSTALLED"
run build test
[ "$status" -eq 0 ] || fail "as root"
[ "$(calls)" = "apt-get update -q
apt-get install -q -y --no-install-recommends ccache libre2-dev" ] || fail "as root: wrong calls"
says "2 of"
says "makes a second build fast"

# The lists cannot be refreshed: it is tried with the old ones.
UPDATE=100 run build
[ "$status" -eq 0 ] || fail "refresh failed"
grep -q 'apt-get install' "$CALLS" || fail "refresh failed: gave up"

# Not root: through sudo, and without sudo an error with the command to run.
WHO=1000 run build
grep -q '^sudo apt-get update' "$CALLS" || fail "no sudo for update"
grep -q '^sudo env DEBIAN_FRONTEND=noninteractive apt-get install' "$CALLS" || fail "no sudo"
mv "$scratch/bin/sudo" "$scratch/nosudo/"
if ! PATH=${PATH#"$scratch/bin:"} command -v sudo >/dev/null; then
  WHO=1000 run build
  [ "$status" -ne 0 ] || fail "no root and no sudo"
  [ -z "$(calls)" ] || fail "no root and no sudo: called the package manager"
  says "as root, run: apt-get install ccache libre2-dev"
fi
echo "packages.sh: ok"
