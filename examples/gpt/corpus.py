"""Text as bytes, and which bytes each micro-batch of each rank sees.

What a global batch holds depends on the samples consumed before it and on nothing else: not on the
micro-batch size, the number of ranks or the number of reader processes. So runs that differ in
those see the same text in the same order, and their losses can be compared step by step.
"""

import torch
from torch.utils.data import DataLoader, Dataset


def split_text(text, shares):
    """Cuts `text` into train, validation and test parts, in the ratio that `shares` gives."""
    numbers = [float(share) for share in shares.split(",")]
    if len(numbers) != 3 or min(numbers) < 0 or sum(numbers) <= 0:
        raise ValueError(f"--split wants three shares such as 969,30,1, not {shares!r}")
    first = int(len(text) * numbers[0] / sum(numbers))
    second = int(len(text) * (numbers[0] + numbers[1]) / sum(numbers))
    return text[:first], text[first:second], text[second:]


def inputs_and_labels(window):
    """The label of a byte is the byte after it, so a window holds one byte more than a sequence."""
    return window[:-1], window[1:]


class Samples(Dataset):
    """An endless row of samples: sample i is one window of the text, shuffled anew each epoch."""

    def __init__(self, text, seq_length, seed):
        if not text:
            raise ValueError("a part of the text that --data-path and --split name is empty")
        # A text shorter than one window is repeated until it fills one.
        text = text * (1 + (seq_length + 1) // len(text)) if len(text) <= seq_length else text
        self.bytes = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        self.seq_length = seq_length
        self.seed = seed
        self.windows = (len(text) - 1) // seq_length
        self.epoch, self.order = None, None

    def __getitem__(self, index):
        epoch, place = divmod(index, self.windows)
        if epoch != self.epoch:
            generator = torch.Generator().manual_seed(self.seed + epoch)
            self.order = torch.randperm(self.windows, generator=generator).tolist()
            self.epoch = epoch
        start = self.order[place] * self.seq_length
        return inputs_and_labels(self.bytes[start:start + self.seq_length + 1].long())


def sample_indices(consumed, micro_batch_size, rank, world_size):
    """Yields for ever the sample numbers of this rank's micro-batches, after `consumed` samples.

    As in Megatron-LM, the ranks take neighbouring micro-batches in turn.
    """
    start = consumed + rank * micro_batch_size
    while True:
        yield range(start, start + micro_batch_size)
        start += world_size * micro_batch_size


def micro_batches(text, args, consumed):
    """Returns an endless iterator over this rank's (tokens, labels), micro-batch x sequence."""
    samples = Samples(text, args.seq_length, args.seed)
    indices = sample_indices(consumed, args.micro_batch_size, args.rank, args.world_size)
    return iter(DataLoader(samples, batch_sampler=indices, num_workers=args.num_workers))
