#!/usr/bin/env bash
# A campaign of some 15 short runs of a job with fixed printed step times, on a real Slurm (as it is,
# or behind a login node) or over a real sshd, under a seeded schedule of kills of attune, slurmctld,
# slurmd, the line, ssh's master and the job's processes. It must end with the run table of an
# undisturbed one, up to runs that the infrastructure spoiled and that were made again: no double
# launch, no orphan, every attempt's GPU-hours within 5 s x GPUs of jobcomp.
#
#   tests/long/chaos.sh [--kind slurm|login|ssh] [--seeds 1-20] [--events 8] [--keep]
#   ATTUNE_BIN_DIR: default build/bin
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec /usr/bin/python3 "$here/chaos.py" "$@"
