#!/usr/bin/python3
"""train.py of examples/gpt with one thing wrong, as a bad change to a trainer would make it.

    GPT_FAULT=NAME faults.py ARGUMENTS OF train.py

Each fault is a real run that learns something else, or from something else, than the job it looks
like. Gates must reject every one; `none` is the trainer as it is.
"""

import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(HERE))),
                                "examples", "gpt"))

import train  # noqa: E402

train.limit_threads()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import corpus  # noqa: E402
import experts  # noqa: E402
import model  # noqa: E402
import trainer  # noqa: E402


def none():
    pass


def labels_unshifted():
    """The label of a byte is the byte itself."""
    corpus.inputs_and_labels = lambda window: (window[:-1], window[:-1])


def labels_late():
    """Labels lie one byte too far ahead."""
    corpus.inputs_and_labels = lambda window: (window[:-1], window.roll(-2)[:-1])


def mask_shifted():
    """The loss mask lies one position late: the first byte of each sequence does not count."""
    model.lm_loss = lambda logits, labels: F.cross_entropy(logits[:, 1:].flatten(0, 1),
                                                           labels[:, 1:].flatten())


def aux_zero():
    """The balancing loss is computed and lost on the way."""
    _scale_balancing_loss(0.0)


def aux_half():
    """The balancing loss is divided once too often."""
    _scale_balancing_loss(0.5)


def _scale_balancing_loss(factor):
    real = experts.load_balancing_loss
    experts.load_balancing_loss = lambda *arguments: factor * real(*arguments)


def bucket_skipped():
    """Gradients of the first bucket stay what each rank found by itself."""
    real = trainer.data_parallel

    def reduce_all_but_first(_, bucket):
        if bucket.index() == 0:
            done = torch.futures.Future()
            done.set_result(bucket.buffer())
            return done
        work = dist.all_reduce(bucket.buffer().div_(dist.get_world_size()), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    def faulty(*arguments):
        replica = real(*arguments)
        replica.register_comm_hook(None, reduce_all_but_first)
        return replica

    trainer.data_parallel = faulty


def ranks_share_data():
    """Every rank reads what rank 0 reads, so half of the global batch is never seen."""
    real = corpus.sample_indices
    corpus.sample_indices = lambda consumed, size, rank, ranks: real(consumed, size, 0, ranks)


FAULTS = {function.__name__: function for function in (
    none, labels_unshifted, labels_late, mask_shifted, aux_zero, aux_half, bucket_skipped,
    ranks_share_data)}


if __name__ == "__main__":
    name = os.environ.get("GPT_FAULT", "none")
    if name not in FAULTS:
        sys.exit(f"error: GPT_FAULT is {name!r}\n  help: one of {', '.join(FAULTS)}")
    FAULTS[name]()
    sys.exit(train.main(sys.argv[1:]))
