#!/usr/bin/env bash
# From a fresh Debian 12 to a tuned recipe: installs, builds, and tunes the training job of
# examples/gpt on this machine. Safe to run again: what is installed, built and prepared stays.
#
#   examples/quickstart.sh [--with-torch] [--build-only]
#     --with-torch   install PyTorch when it is missing; the training job needs it
#     --build-only   stop after the build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/packages.sh

with_torch=no
build_only=no
for argument in "$@"; do
  case $argument in
    --with-torch) with_torch=yes ;;
    --build-only) build_only=yes ;;
    -h | --help)
      sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *)
      echo "error: unknown argument '$argument'" >&2
      echo "  help: examples/quickstart.sh [--with-torch] [--build-only]" >&2
      exit 2
      ;;
  esac
done

step() { printf '\n== %s\n' "$*"; }

step "1/3 packages"
groups=(build)
[ "$with_torch" = no ] || groups+=(torch)
attune_install "${groups[@]}"

step "2/3 build (build/, optimised)"
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
cmake -S . -B build -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=Release -DATTUNE_TESTS=OFF \
  -DATTUNE_SANITIZE=OFF
cmake --build build --parallel "${ATTUNE_JOBS:-$(nproc)}" --target attune
attune=build/src/cli/attune
"$attune" --version
[ "$build_only" = no ] || exit 0

step "3/3 tune examples/gpt"
for name in $(attune_packages torch); do
  if command -v dpkg-query >/dev/null && ! attune_is_installed "$name"; then
    echo "error: the training job needs the package $name" >&2
    echo "  help: examples/quickstart.sh --with-torch installs it" >&2
    exit 1
  fi
done
/usr/bin/python3 examples/gpt/prepare.py
"$attune" run examples/gpt/recipe.yaml --budget auto
