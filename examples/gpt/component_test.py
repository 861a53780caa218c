#!/usr/bin/python3
"""Proves that a kernel swap computes the same: outputs, gradients and updates within a tolerance.

    component_test.py attention [NAME...]    attention implementations against the textbook order
    component_test.py experts [NAME...]      expert implementations against the loop
    component_test.py optimizer [NAME...]    optimizer forms against the parameter-wise one

Without a name, every implementation that this torch has is tested. Ends with 0 when all agree, 1
when one does not. Attention has one more name, bf16-scores: scores rounded to bfloat16, as a fast
kernel might do it. train.py does not offer it; it shows that the test fails where it must.
"""

import argparse
import math
import os
import sys

sys.dont_write_bytecode = True
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402

from arguments import ATTENTION_NAMES, parse_args  # noqa: E402
from attention import attention_by_name, matmul  # noqa: E402
from experts import Experts  # noqa: E402
from model import Gpt  # noqa: E402
from optimizer import build_optimizer  # noqa: E402

# Largest difference over the largest value, per tensor, in float32. Sums of a few hundred products
# in another order differ by some 1e-6; bfloat16 keeps 8 bits, so its rounding shows at 1e-3.
TOLERANCE = 2e-5


def relative_difference(found, expected):
    return ((found - expected).abs().max() / expected.abs().max().clamp_min(1e-12)).item()


def bf16_scores(q, k, v):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    scores = scores.bfloat16().float()
    hidden = torch.ones(q.size(-2), q.size(-2), dtype=torch.bool).triu(1)
    scores = scores.masked_fill(hidden, float("-inf"))
    return torch.matmul(torch.softmax(scores, dim=-1), v).transpose(1, 2)


def attention_differences(name):
    core = bf16_scores if name == "bf16-scores" else attention_by_name(name)
    # Lengths around the chunk size and one that is no multiple of it; scores from flat to peaked.
    shapes = [(1, 1, 1, 8), (2, 31, 2, 16), (2, 64, 4, 32), (1, 150, 3, 24)]
    for batch, length, heads, width in shapes:
        for scale in (0.3, 1.0, 4.0):
            generator = torch.Generator().manual_seed(length)
            inputs = [torch.randn(batch, length, heads, width, generator=generator)
                      * (scale if part < 2 else 1.0) for part in range(3)]
            seed = torch.randn(batch, length, heads, width, generator=generator)
            expected, found = ([out] + gradients for out, gradients in (
                _with_gradients(function, inputs, seed) for function in (matmul, core)))
            for what, a, b in zip(("output", "dq", "dk", "dv"), found, expected):
                if length > 1 or what in ("output", "dv"):  # One position has nothing to choose.
                    yield f"length {length} scale {scale} {what}", relative_difference(a, b)


def _with_gradients(function, inputs, seed):
    leaves = [x.clone().requires_grad_() for x in inputs]
    output = function(*leaves)
    return output.detach(), list(torch.autograd.grad((output * seed).sum(), leaves))


def _arguments(*extra):
    return parse_args(["--data-path", "none", "--num-layers", "2", "--hidden-size", "32",
                       "--seq-length", "32", *extra])


def expert_differences(name):
    for experts, topk in [(2, 1), (4, 2), (8, 3)]:
        outcomes = []
        for implementation in ("loop", name):
            args = _arguments("--num-experts", str(experts), "--moe-router-topk", str(topk),
                              "--moe-expert-impl", implementation)
            module = Experts(args)
            generator = torch.Generator().manual_seed(experts)
            for parameter in module.parameters():
                parameter.data.normal_(0.0, 0.3, generator=generator)
            x = torch.randn(3, 32, 32, generator=generator).requires_grad_()
            output, balance = module(x)
            seed = torch.randn(output.shape, generator=generator)
            leaves = [x, *module.parameters()]
            gradients = torch.autograd.grad((output * seed).sum() + balance, leaves)
            outcomes.append([output, balance, *gradients])
        for index, (expected, found) in enumerate(zip(*outcomes)):
            yield (f"{experts} experts top {topk} tensor {index}",
                   relative_difference(found, expected))


def optimizer_differences(name):
    outcomes = []
    for implementation in ("single", name):
        args = _arguments("--optimizer-impl", implementation, "--weight-decay", "0.1")
        model = Gpt(args)
        optimizer = build_optimizer(model, args)
        generator = torch.Generator().manual_seed(7)
        # Gradients are drawn, not computed: some of a model's are zero but for rounding (a bias of
        # the keys moves every score alike), and Adam would blow that rounding up to full steps.
        for _ in range(5):
            optimizer.zero_grad()
            for parameter in model.parameters():
                drawn = torch.randn(parameter.shape, generator=generator)
                if parameter.grad is None:
                    parameter.grad = drawn
                else:
                    parameter.grad.copy_(drawn)
            norm = optimizer.clip()
            optimizer.step(1e-3)
        outcomes.append({"norm": norm, **dict(model.named_parameters())})
    for key, expected in outcomes[0].items():
        yield key, relative_difference(outcomes[1][key].detach(), expected.detach())


KINDS = {
    "attention": (attention_differences,
                  [n for n in ATTENTION_NAMES[1:]
                   if n != "sdpa" or hasattr(torch.nn.functional, "scaled_dot_product_attention")]),
    "experts": (expert_differences, ["sorted"]),
    "optimizer": (optimizer_differences, ["foreach", "flat"]),
}


def main(argv):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args(argv)
    differences, all_names = KINDS[options.kind]
    failed = False
    for name in options.names or all_names:
        # NaN counts as infinite: it would slip through any comparison.
        worst, where = max((value if math.isfinite(value) else math.inf, what)
                           for what, value in differences(name))
        agrees = worst <= TOLERANCE
        failed = failed or not agrees
        print(f"{options.kind} {name}: {'agrees' if agrees else 'DIFFERS'}, largest relative "
              f"difference {worst:.1e} ({where}), allowed {TOLERANCE:.0e}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
