# SPDX-License-Identifier: Apache-2.0
"""Routed experts as docs/experts.md describes them, expert by expert: with the capacities, priorities, routers, biases and
losses that transformers' blocks lack."""
import math

import torch
from torch import nn
from torch.nn import functional

from philox import normal, site_key, uniform

COSINE_WIDTH = 256


class Stack(nn.Module):
    """The matrices of all experts, and their biases."""

    def __init__(self, experts, outputs, inputs, bias=False):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(experts, outputs, inputs))
        self.bias = nn.Parameter(torch.empty(experts, outputs)) if bias else None

    def forward(self, rows, expert):
        return functional.linear(rows, self.weight[expert], None if self.bias is None else self.bias[expert])


class RoutedExperts(nn.Module):
    def __init__(self, config, moe, layer, activation):
        super().__init__()
        self.config, self.moe, self.activation = config, moe, activation
        self.site = f"layers.{layer}.ffn.router"
        hidden, width, bias = config.hidden_size, moe.ffn_hidden_size, config.bias
        self.router = nn.Linear(COSINE_WIDTH if moe.router == "cosine" else hidden, moe.experts, bias=False)
        if moe.router == "cosine":
            self.router_projection = nn.Linear(hidden, COSINE_WIDTH, bias=False)
            self.router.temperature = nn.Parameter(torch.zeros(1))
        names = ("gate", "up") if "glu" in config.activation else ("up",)
        self.experts = nn.ModuleDict({name: Stack(moe.experts, width, hidden, bias) for name in names})
        self.experts["down"] = Stack(moe.experts, hidden, width, bias)

    def drawn(self, draw, site, shape):
        """Random numbers of the step for all tokens of its one micro-batch."""
        key = site_key(self.config.seed, self.config.step, site)
        return torch.from_numpy(draw(key, math.prod(shape))).view(shape)

    def logits(self, rows):
        """A logit for each expert and token, without and with noise."""
        if self.moe.jitter > 0 and self.training:
            factors = 1 + self.moe.jitter * self.drawn(uniform, self.site, rows.shape)
            rows = (rows.double() * factors).to(rows.dtype)
        if self.moe.router == "cosine":
            cosines = functional.normalize(self.router_projection(rows)) @ functional.normalize(self.router.weight).T
            plain = cosines * (2 * self.router.temperature.exp()).clamp(max=100)
        else:
            plain = self.router(rows)
        if self.moe.gate_noise == 0 or not self.training:
            return plain, plain
        noise = self.moe.gate_noise / self.moe.experts * self.drawn(normal, self.site + ".noise", plain.shape)
        return plain, plain + noise.to(plain.dtype)

    def kept(self, chosen, probabilities):
        """Whether each choice has a place at its expert: the first choices of all tokens ask before the second ones."""
        kept, moe = torch.ones_like(chosen, dtype=torch.bool), self.moe
        if moe.capacity_factor == 0:
            return kept
        places = [moe.top_k * math.floor(abs(moe.capacity_factor) * math.ceil(len(chosen) / moe.experts))] * moe.experts
        tokens = range(len(chosen))
        if moe.priority == "score":
            tokens = probabilities.amax(-1).argsort(dim=0, descending=True, stable=True).tolist()
        for choice in range(moe.top_k):
            for token in tokens:
                expert = chosen[token, choice].item()
                kept[token, choice] = places[expert] > 0
                places[expert] -= places[expert] > 0
        return kept

    def network(self, rows, expert):
        up = self.experts["up"](rows, expert)
        of_gate = (self.experts["gate"](rows, expert),) if "gate" in self.experts else ()
        return self.experts["down"](self.activation(*of_gate, up), expert)

    def forward(self, x):
        rows = x.flatten(0, -2)
        plain, noisy = self.logits(rows)
        probabilities = noisy.softmax(-1)
        chosen = probabilities.argsort(dim=-1, descending=True, stable=True)[:, : self.moe.top_k]
        kept, gates = self.kept(chosen, probabilities), probabilities.gather(1, chosen)
        if self.moe.normalize_gates:
            gates = gates / gates.sum(-1, keepdim=True)
        y = torch.zeros_like(rows)
        for expert in range(self.moe.experts):
            token, choice = ((chosen == expert) & kept).nonzero(as_tuple=True)
            y = y.index_add(0, token, gates[token, choice, None] * self.network(rows[token], expert))
        self.loss = self.balance_loss(plain, noisy, chosen) + self.moe.z_coefficient * noisy.logsumexp(-1).square().mean()
        self.dropped_share = 1 - kept.double().mean().item()
        return y.view_as(x)

    def balance_loss(self, plain, noisy, chosen):
        experts = self.moe.experts
        if self.moe.balance_loss == "gshard":
            first = functional.one_hot(chosen[:, 0], experts).to(noisy.dtype)
            loss = experts * (first.mean(0) * noisy.softmax(-1).mean(0)).sum()
        elif self.moe.balance_loss == "load_importance":
            needed = noisy.gather(1, chosen[:, -1:])  # to be among the chosen
            chances = torch.special.ndtr((plain - needed) * experts / self.moe.gate_noise)
            loss = (variation(plain.softmax(-1).sum(0)) + variation(chances.sum(0))) / 2
        else:
            return 0
        return self.moe.balance_coefficient * loss


def variation(values):
    """The squared coefficient of variation."""
    return values.var(correction=0) / values.mean().square()
