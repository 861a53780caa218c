"""Causal self-attention written in several ways that compute the same thing.

Each takes q, k, v of shape (batch, sequence, heads, head width) and returns the mixed values in the
same shape. They differ in which kernels they call and how much of the masked half they compute, so
outputs and gradients agree to rounding (component_test.py holds them to that).
"""

import functools
import math

import torch
import torch.nn.functional as F

from arguments import ATTENTION_NAMES

# Rows of queries that one step of `chunked` handles: small enough to skip most of the masked half,
# large enough that each product still fills the vector units.
CHUNK = 32


@functools.lru_cache(maxsize=4)
def _hidden(length, device):
    """True where a query (row) must not see a key (column)."""
    return torch.ones(length, length, dtype=torch.bool, device=device).triu(1)


@functools.lru_cache(maxsize=4)
def _bias(length, dtype, device):
    return torch.zeros(length, length, dtype=dtype, device=device).masked_fill_(
        _hidden(length, device), float("-inf"))


def matmul(q, k, v):
    """Scores, mask, softmax, mix: the textbook order, on (batch, heads, sequence, width)."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    scores = scores.masked_fill(_hidden(q.size(-2), q.device), float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v).transpose(1, 2)


def baddbmm(q, k, v):
    """Scale and mask ride along with the score product instead of taking passes of their own."""
    batch, length, heads, width = q.shape
    q, k, v = (x.transpose(1, 2).reshape(batch * heads, length, width) for x in (q, k, v))
    scores = torch.baddbmm(_bias(length, q.dtype, q.device), q, k.transpose(1, 2),
                           alpha=1.0 / math.sqrt(width))
    mixed = torch.bmm(torch.softmax(scores, dim=-1), v)
    return mixed.view(batch, heads, length, width).transpose(1, 2)


def einsum(q, k, v):
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.size(-1))
    scores = scores.masked_fill(_hidden(q.size(1), q.device), float("-inf"))
    return torch.einsum("bhqk,bkhd->bqhd", torch.softmax(scores, dim=-1), v)


def chunked(q, k, v):
    """Takes queries a few rows at a time and skips the keys that none of those rows may see."""
    batch, length, heads, width = q.shape
    q, k, v = (x.transpose(1, 2).reshape(batch * heads, length, width) for x in (q, k, v))
    bias = _bias(length, q.dtype, q.device)
    mixed = []
    for start in range(0, length, CHUNK):
        end = min(start + CHUNK, length)
        scores = torch.baddbmm(bias[start:end, :end], q[:, start:end], k[:, :end].transpose(1, 2),
                               alpha=1.0 / math.sqrt(width))
        mixed.append(torch.bmm(torch.softmax(scores, dim=-1), v[:, :end]))
    return torch.cat(mixed, dim=1).view(batch, heads, length, width).transpose(1, 2)


def sdpa(q, k, v):
    """PyTorch's own fused kernel (from 2.0 on)."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


_IMPLEMENTATIONS = {"matmul": matmul, "baddbmm": baddbmm, "einsum": einsum, "chunked": chunked,
                    "sdpa": sdpa}
assert list(_IMPLEMENTATIONS) == ATTENTION_NAMES


def attention_by_name(name):
    """Returns the implementation, or raises ValueError where this torch lacks its kernel."""
    if name == "sdpa" and not hasattr(F, "scaled_dot_product_attention"):
        raise ValueError(f"--attention-impl sdpa needs torch 2.0, this is {torch.__version__}")
    return _IMPLEMENTATIONS[name]
