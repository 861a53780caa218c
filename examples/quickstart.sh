#!/usr/bin/env bash
# From a fresh Debian 12 to a tuned recipe: installs what is needed, builds attune, and tunes a
# recipe for 128 GPUs on the simulated cluster, in well under a minute. With --real it tunes the
# training job of examples/gpt on this machine instead. Safe to run again: what is installed, built
# and prepared stays; a campaign that was interrupted goes on, one that ended is followed by a new one.
#
#   bash examples/quickstart.sh [--real | --no-run]
#     --real       a real training job on this machine's CPUs, with PyTorch: up to 15 minutes
#     --no-run     install and build only
#
#   ATTUNE_JOBS    compile jobs at once (default: as cores and memory allow)
#
# It writes below this folder: build/ (the program) and build/quickstart/ (the rehearsal); with --real
# examples/gpt/prepared/ (text, checkpoints, campaigns), and a gain to examples/gpt/recipe.tuned.yaml.
# Packages come from Debian, with sudo when you are not root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. tests/packages.sh

run=simulated
for argument in "$@"; do
  case $argument in
    --real) run=real ;;
    --no-run) run=no ;;
    -h | --help)
      sed -n '2,/^set -/{/^set -/d;s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *)
      echo "error: unknown argument '$argument'" >&2
      echo "  help: bash examples/quickstart.sh [--real | --no-run]" >&2
      exit 2
      ;;
  esac
done

groups=(build)
case $run in
  no) steps=2 ;;
  simulated) steps=3 ;;
  real)
    steps=4
    groups=(build torch)
    ;;
esac
now=
step() {
  now="step $1 of $steps ($2)"
  printf '\n== %s/%s %s\n' "$1" "$steps" "$2${3:+: $3}"
}
# An EXIT trap, since an ERR trap does not see what fails inside a function.
ended() {
  local status=$?
  if [ "$status" -ne 0 ] && [ -n "$now" ]; then
    echo "error: quickstart stopped at $now; the lines above say why" >&2
  fi
}
trap ended EXIT

# A compiler takes about 1.5 GB at worst: more jobs than fit into memory end in the OOM killer.
jobs_that_fit() {
  local cores memory
  cores=$(nproc)
  memory=$(awk '/^MemAvailable:/ { print int($2 / 1500000) }' /proc/meminfo)
  if [ "${memory:-0}" -lt 1 ]; then memory=1; fi
  echo $((memory < cores ? memory : cores))
}

step 1 packages "$(attune_packages "${groups[@]}" | wc -l) of Debian's, listed in tests/packages.sh"
attune_install "${groups[@]}"

step 2 build "optimised, into build/; some minutes the first time"
# The compiler cache then holds for a checkout in another folder too.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
cmake -S . -B build -G Ninja --log-level=WARNING -DCMAKE_BUILD_TYPE=Release -DATTUNE_TESTS=OFF \
  -DATTUNE_SANITIZE=OFF
cmake --build build --parallel "${ATTUNE_JOBS:-$(jobs_that_fit)}" --target attune attune-wrapper
attune=build/bin/attune
"$attune" --version
if [ "$run" = no ]; then
  echo "built $attune; next: $attune help"
  exit 0
fi

if [ "$run" = simulated ]; then
  step 3 rehearse "GLM-4.5 on 128 simulated B200; nothing is launched on this machine"
  state=$PWD/build/quickstart
  echo "  the campaign is kept in $state; the cluster is a model, and so are its gains"
  echo "  a real job:  bash examples/quickstart.sh --real"
  exec "$attune" --state "$state" run examples/glm-4.5-b200x128/recipe.yaml --launcher sim
fi

step 3 prepare "training text and two checkpoints, one to two minutes the first time"
if ! /usr/bin/python3 -c 'import torch' 2>/dev/null; then
  echo "error: /usr/bin/python3 cannot import torch, which the training job needs" >&2
  echo "  help: install $(attune_packages torch | paste -sd ' ')" >&2
  now=
  exit 1
fi
/usr/bin/python3 examples/gpt/prepare.py

state=$PWD/examples/gpt/prepared/state
step 4 tune "up to 15 minutes; Ctrl-C ends it after the run that is going on"
echo "  campaigns are kept in $state"
echo "  $attune --state $state resume    goes on after a stop"
exec "$attune" --state "$state" run examples/gpt/recipe.yaml --budget auto
