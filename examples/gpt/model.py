"""A small GPT: pre-norm blocks, learned positions, tied embeddings, dense or with experts."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from attention import attention_by_name
from experts import Experts


class Attention(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.heads = args.num_attention_heads
        self.qkv = nn.Linear(args.hidden_size, 3 * args.hidden_size)
        self.out = nn.Linear(args.hidden_size, args.hidden_size)
        self.core = attention_by_name(args.attention_impl)
        # Scores and weights grow with the square of the sequence and are cheap to make again;
        # `selective` drops these alone.
        self.recompute_core = args.recompute_granularity == "selective"

    def forward(self, x):
        batch, length, hidden = x.shape
        q, k, v = (part.view(batch, length, self.heads, hidden // self.heads)
                   for part in self.qkv(x).chunk(3, dim=-1))
        if self.recompute_core and self.training:
            mixed = _recomputed(self.core, q, k, v)
        else:
            mixed = self.core(q, k, v)
        return self.out(mixed.reshape(batch, length, hidden))


class Mlp(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.up = nn.Linear(args.hidden_size, args.ffn_hidden_size)
        self.down = nn.Linear(args.ffn_hidden_size, args.hidden_size)

    def forward(self, x):
        return self.down(F.gelu(self.up(x))), x.new_zeros(())


class Block(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.attention_norm = nn.LayerNorm(args.hidden_size)
        self.attention = Attention(args)
        self.mlp_norm = nn.LayerNorm(args.hidden_size)
        self.mlp = Mlp(args) if args.num_experts is None else Experts(args)

    def forward(self, x):
        """Returns the new hidden states and this layer's load-balancing loss (0 when dense)."""
        x = x + self.attention(self.attention_norm(x))
        change, balance = self.mlp(self.mlp_norm(x))
        return x + change, balance


def lm_loss(logits, labels):
    """Mean over tokens of the next-byte loss. Every position counts, as there is no padding."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


class Gpt(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.token = nn.Embedding(args.padded_vocab_size, args.hidden_size)
        self.position = nn.Embedding(args.max_position_embeddings, args.hidden_size)
        self.blocks = nn.ModuleList(Block(args) for _ in range(args.num_layers))
        self.final_norm = nn.LayerNorm(args.hidden_size)
        self.recomputed_spans = _recomputed_spans(args)
        self._initialise(args)

    def _initialise(self, args):
        # One generator seeded alike on every rank: the ranks start from the same weights without a
        # broadcast, and the draw does not depend on how many there are.
        generator = torch.Generator().manual_seed(args.seed)
        # Layers that write into the residual stream start smaller, so that its variance does not
        # grow with depth.
        shrunk = args.init_method_std / math.sqrt(2 * args.num_layers)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                if name.endswith("bias"):
                    parameter.zero_()
                elif "norm" in name:
                    parameter.fill_(1.0)
                else:
                    writes = name.endswith(("out.weight", "down.weight", "down"))
                    parameter.normal_(0.0, shrunk if writes else args.init_method_std,
                                      generator=generator)

    def forward(self, tokens, labels):
        """Returns the mean next-byte loss and the mean load-balancing loss of the layers."""
        x = self.token(tokens) + self.position.weight[:tokens.size(1)]
        balances = []
        for span, recomputed in self.recomputed_spans:
            blocks = self.blocks[span]
            if recomputed and self.training:
                x, balance = _recomputed(_run_blocks, blocks, x)
            else:
                x, balance = _run_blocks(blocks, x)
            balances.append(balance)
        logits = F.linear(self.final_norm(x), self.token.weight)
        return lm_loss(logits, labels), sum(balances) / len(self.blocks)


def _run_blocks(blocks, x):
    total = x.new_zeros(())
    for block in blocks:
        x, balance = block(x)
        total = total + balance
    return x, total


def _recomputed(function, *inputs):
    # The non-reentrant form works under DistributedDataParallel. Nothing here draws random numbers
    # while training, so there is no generator state worth carrying.
    return checkpoint(function, *inputs, use_reentrant=False, preserve_rng_state=False)


def _recomputed_spans(args):
    """Splits the layers into [(slice, recomputed)], as --recompute-method and -num-layers ask."""
    layers, size = args.num_layers, args.recompute_num_layers
    if args.recompute_granularity != "full":
        return [(slice(0, layers), False)]
    if args.recompute_method == "uniform":
        return [(slice(i, min(i + size, layers)), True) for i in range(0, layers, size)]
    return ([(slice(i, i + 1), True) for i in range(size)]
            + ([(slice(size, layers), False)] if size < layers else []))
