"""AdamW in three forms with the same arithmetic, and checkpoints that any of them can resume.

`single` and `foreach` are PyTorch's. `flat` lays all parameters, gradients and moments out in one
buffer each, so a step is a dozen long vector operations instead of a dozen short ones a tensor.
"""

import math

import torch


def lr_at(args, iteration):
    """Learning rate of the step after `iteration` steps: warm-up from 0, then decay to --min-lr."""
    if iteration < args.lr_warmup_iters:
        return args.lr * iteration / args.lr_warmup_iters
    if args.lr_decay_style == "constant":
        return args.lr
    done = min(1.0, (iteration - args.lr_warmup_iters)
               / (args.lr_decay_iters - args.lr_warmup_iters))
    left = 1.0 - done if args.lr_decay_style == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return args.min_lr + (args.lr - args.min_lr) * left


def decayed_first(model):
    """Returns [(name, parameter)] with weight decay, and those without: biases and norms."""
    named = list(model.named_parameters())
    return [n for n in named if n[1].dim() > 1], [n for n in named if n[1].dim() <= 1]


class TorchAdamW:
    """torch.optim.AdamW, one parameter at a time or in its multi-tensor form."""

    def __init__(self, model, args):
        decayed, plain = decayed_first(model)
        self.named = decayed + plain
        self.clip_grad = args.clip_grad
        groups = [{"params": [p for _, p in decayed], "weight_decay": args.weight_decay},
                  {"params": [p for _, p in plain], "weight_decay": 0.0}]
        self.adam = torch.optim.AdamW(groups, lr=args.lr, betas=(args.adam_beta1, args.adam_beta2),
                                      eps=args.adam_eps, foreach=args.optimizer_impl == "foreach")

    def zero_grad(self):
        self.adam.zero_grad(set_to_none=True)

    def clip(self):
        """Scales the gradients down to the wished norm; returns the norm they had."""
        parameters = [p for _, p in self.named]
        limit = self.clip_grad if self.clip_grad > 0 else float("inf")
        return torch.nn.utils.clip_grad_norm_(parameters, limit)

    def step(self, lr):
        for group in self.adam.param_groups:
            group["lr"] = lr
        self.adam.step()

    def moments(self):
        """Returns {parameter name: (steps, first moment, second moment)}."""
        state = self.adam.state
        return {name: (int(state[p]["step"]), state[p]["exp_avg"], state[p]["exp_avg_sq"])
                for name, p in self.named}

    def load_moments(self, moments):
        for name, p in self.named:
            steps, first, second = moments[name]
            self.adam.state[p] = {"step": torch.tensor(float(steps)), "exp_avg": first.to(p),
                                  "exp_avg_sq": second.to(p)}


class FlatAdamW:
    """AdamW over one contiguous buffer; the parameters and gradients become views into it."""

    def __init__(self, model, args):
        decayed, plain = decayed_first(model)
        self.named = decayed + plain
        self.clip_grad = args.clip_grad
        self.beta1, self.beta2, self.eps = args.adam_beta1, args.adam_beta2, args.adam_eps
        self.weight_decay = args.weight_decay
        self.steps = 0
        self.parameters = torch.cat([p.detach().flatten() for _, p in self.named])
        self.gradients, self.first, self.second = (torch.zeros_like(self.parameters)
                                                   for _ in range(3))
        for p, data, grad in zip((p for _, p in self.named), self._views(self.parameters),
                                 self._views(self.gradients)):
            p.data = data
            p.grad = grad
        # Weight decay covers a prefix of the buffer, because decayed parameters come first.
        self.decayed = self.parameters[:sum(p.numel() for _, p in decayed)]

    def _views(self, buffer):
        sizes = [p.numel() for _, p in self.named]
        return [piece.view(p.shape) for piece, (_, p) in zip(buffer.split(sizes), self.named)]

    def zero_grad(self):
        self.gradients.zero_()

    def clip(self):
        norm = self.gradients.norm()
        if self.clip_grad > 0:
            self.gradients.mul_(torch.clamp(self.clip_grad / (norm + 1e-6), max=1.0))
        return norm

    def step(self, lr):
        self.steps += 1
        self.decayed.mul_(1 - lr * self.weight_decay)
        self.first.mul_(self.beta1).add_(self.gradients, alpha=1 - self.beta1)
        self.second.mul_(self.beta2).addcmul_(self.gradients, self.gradients, value=1 - self.beta2)
        scale = math.sqrt(1 - self.beta2 ** self.steps)
        denominator = self.second.sqrt().div_(scale).add_(self.eps)
        self.parameters.addcdiv_(self.first, denominator,
                                 value=-lr / (1 - self.beta1 ** self.steps))

    def moments(self):
        names = [name for name, _ in self.named]
        return {name: (self.steps, first, second) for name, first, second
                in zip(names, self._views(self.first), self._views(self.second))}

    def load_moments(self, moments):
        for (name, _), first, second in zip(self.named, self._views(self.first),
                                            self._views(self.second)):
            self.steps, stored_first, stored_second = moments[name]
            first.copy_(stored_first)
            second.copy_(stored_second)


def build_optimizer(model, args):
    return FlatAdamW(model, args) if args.optimizer_impl == "flat" else TorchAdamW(model, args)
