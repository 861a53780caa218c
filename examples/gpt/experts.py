"""A mixture of experts in place of the MLP: top-k router without dropping, balancing loss."""

import torch
import torch.nn as nn
import torch.nn.functional as F


def load_balancing_loss(probabilities, chosen, groups):
    """Returns E x sum_e f_e P_e, averaged over `groups` equal groups of tokens.

    It is 1 when every expert gets the same share. f_e is the share of choices that went to expert
    e, P_e the mean probability of e; the gradient flows through P_e alone, since a choice has none
    (Switch Transformer, equation 4, divided by k).
    """
    tokens, experts = probabilities.shape
    counts = torch.zeros(groups, experts, dtype=probabilities.dtype, device=probabilities.device)
    counts.scatter_add_(1, chosen.reshape(groups, -1),
                        torch.ones_like(chosen, dtype=probabilities.dtype).reshape(groups, -1))
    share = counts / (chosen.numel() / groups)
    mean_probability = probabilities.view(groups, tokens // groups, experts).mean(dim=1)
    return experts * (share * mean_probability).sum(dim=1).mean()


class Experts(nn.Module):
    def __init__(self, args):
        super().__init__()
        experts, hidden, ffn = args.num_experts, args.hidden_size, args.moe_ffn_hidden_size
        self.topk = args.moe_router_topk
        self.balancing = args.moe_router_load_balancing_type
        self.router = nn.Linear(hidden, experts, bias=False)
        self.up = nn.Parameter(torch.empty(experts, hidden, ffn))
        self.down = nn.Parameter(torch.empty(experts, ffn, hidden))
        self.mix = self._mix_sorted if args.moe_expert_impl == "sorted" else self._mix_loop

    def forward(self, x):
        batch, length, hidden = x.shape
        tokens = x.reshape(-1, hidden)
        logits = self.router(tokens)
        top, chosen = logits.topk(self.topk, dim=-1)
        weights = torch.softmax(top, dim=-1)
        if self.balancing == "none":
            balance = x.new_zeros(())
        else:
            groups = batch if self.balancing == "seq_aux_loss" else 1
            balance = load_balancing_loss(torch.softmax(logits, dim=-1), chosen, groups)
        return self.mix(tokens, weights, chosen).view_as(x), balance

    def _expert(self, index, tokens):
        return F.gelu(tokens @ self.up[index]) @ self.down[index]

    def _mix_loop(self, tokens, weights, chosen):
        """Looks up each expert's tokens in turn and adds its answers to the total."""
        mixed = torch.zeros_like(tokens)
        for index in range(self.up.size(0)):
            rows, slots = (chosen == index).nonzero(as_tuple=True)
            # An expert without tokens still runs, on nothing: its weights then get a gradient of
            # zeros, which the gradient exchange between ranks needs.
            answers = self._expert(index, tokens[rows]) * weights[rows, slots].unsqueeze(1)
            mixed = mixed.index_add(0, rows, answers)
        return mixed

    def _mix_sorted(self, tokens, weights, chosen):
        """Sorts all choices by expert once: each expert then reads and writes one piece."""
        choices = chosen.flatten()
        order = choices.argsort(stable=True)
        counts = torch.bincount(choices, minlength=self.up.size(0)).tolist()
        pieces = tokens.index_select(0, order // self.topk).split(counts)
        answers = torch.cat([self._expert(i, piece) for i, piece in enumerate(pieces)])
        # Back to the order of the choices: then the k answers of one token lie side by side.
        answers = answers.index_select(0, order.argsort())
        return (answers.view(-1, self.topk, answers.size(1)) * weights.unsqueeze(2)).sum(dim=1)
