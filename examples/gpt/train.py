#!/usr/bin/python3
"""Trains a small GPT on text. Arguments and log lines are Megatron-LM's (README.md)."""

import os
import sys

# A run leaves nothing behind but what --save and --profile-dir ask for, so no __pycache__ either.
sys.dont_write_bytecode = True

from arguments import parse_args  # noqa: E402
from ranks import start_ranks  # noqa: E402


def limit_threads():
    """One thread a rank unless asked otherwise, as torchrun has it.

    To be called before torch is imported: BLAS and OpenMP read these once, while they
    are loaded. Left alone, every rank would start a thread per core.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def main(argv):
    args = parse_args(argv)
    if "RANK" not in os.environ and args.num_ranks > 1:
        return start_ranks(args.num_ranks)
    limit_threads()
    import trainer  # Imports torch, which the process above never needs.
    return trainer.run(args)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
