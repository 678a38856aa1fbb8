# SPDX-License-Identifier: Apache-2.0
"""A GPT in plain PyTorch with autograd, based only on docs/recipe.md and the pages that it names: llmtrain's model must equal it.

Clarity before speed. Parameter names are llmtrain's logical names, so that a state_dict is a checkpoint's content.
"""
import math
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional
from transformers import MixtralConfig, Qwen2MoeConfig, Qwen3MoeConfig
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssExperts
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
from transformers.models.qwen2_moe.modeling_qwen2_moe import Qwen2MoeSparseMoeBlock
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

from model_settings import resolve
from routed_experts import RoutedExperts, Stack

def gelu_tanh(x):
    return functional.gelu(x, approximate="tanh")


PLAIN = {"gelu": functional.gelu, "gelu_tanh": gelu_tanh, "squared_relu": lambda x: functional.relu(x).square()}
# Functions of gate and up.
GATED = {
    "swiglu": lambda gate, up: functional.silu(gate) * up,
    "geglu": lambda gate, up: functional.gelu(gate) * up,
    "geglu_tanh": lambda gate, up: gelu_tanh(gate) * up,
    # transformers' own, which takes both in turns.
    "clamped_swiglu": lambda gate, up: GptOssExperts._apply_gate(
        SimpleNamespace(alpha=1.702, limit=7.0), torch.stack((gate, up), -1).flatten(-2)),
}
ACTIVATIONS = PLAIN | GATED


def rounded(x, dtype, largest, margin=0):
    """The values of x that an FP8 type has, with the largest power of two as scale that keeps `largest` within it."""
    most = torch.finfo(dtype).max
    scale = 2.0 ** (math.floor(math.log2(most / largest)) - margin)
    return (x * scale).clamp(-most, most).to(dtype).to(x.dtype) / scale


class CurrentScaling:
    """Casts with the scale of a tensor's own largest magnitude."""

    def cast(self, layer, operand, x, dtype):
        return rounded(x, dtype, x.abs().max().item())

    def end_step(self):
        pass


class DelayedScaling:
    """Casts with the scale of the largest magnitude that the same operand of the same layer had in the steps before."""

    def __init__(self, history_steps=1024, margin=0):
        self.steps, self.margin, self.before, self.now = history_steps, margin, {}, {}

    def cast(self, layer, operand, x, dtype):
        key, largest = (id(layer), operand), x.abs().max().item()
        self.now[key] = max(largest, self.now.get(key, 0))
        if key not in self.before:
            return rounded(x, dtype, largest)
        return rounded(x, dtype, max(self.before[key]), self.margin)

    def end_step(self):
        for key, largest in self.now.items():
            self.before[key] = [largest, *self.before.get(key, [])][: self.steps]
        self.now = {}


class Fp8Product(torch.autograd.Function):
    """x · weightᵀ of operands cast to FP8 and widened: E4M3 forward, E5M2 for the output's gradient. A weight that is
    stored in FP8 is not cast again."""

    @staticmethod
    def forward(ctx, x, weight, is_stored, scaling, layer):
        x = scaling.cast(layer, "input", x, torch.float8_e4m3fn)
        if not is_stored:
            weight = scaling.cast(layer, "weight", weight, torch.float8_e4m3fn)
        ctx.save_for_backward(x, weight)
        ctx.scaling, ctx.layer = scaling, layer
        return x @ weight.T

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        gradient = ctx.scaling.cast(ctx.layer, "gradient", gradient, torch.float8_e5m2)
        return gradient @ weight, gradient.flatten(0, -2).T @ x.flatten(0, -2), None, None, None


def apply(layers, x, fp8, scaling):
    """The outputs of linear layers with the same input, whose matrices are one tensor to FP8 products."""
    if fp8 == "off":
        return [layer(x) for layer in layers]
    products = Fp8Product.apply(x, torch.cat([layer.weight for layer in layers]), fp8 == "O3", scaling, layers[0])
    outputs = products.split([layer.out_features for layer in layers], -1)
    return [output if layer.bias is None else output + layer.bias for layer, output in zip(layers, outputs)]


class RmsNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def make_norm(config):
    if config.norm == "rmsnorm":
        return RmsNorm(config.hidden_size, config.norm_eps)
    return nn.LayerNorm(config.hidden_size, eps=config.norm_eps, bias=config.bias)


def rotate(x, theta, positions):
    """Rotary positions [batch or 1, time] on [batch, heads, time, head_dim], the two halves of a head as the pairs (as in
    Llama)."""
    half = x.shape[-1] // 2
    frequencies = theta ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = (positions.to(torch.float64)[..., None] * frequencies)[:, None]
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.kept = config, None  # [batch, time]: the tokens that others may attend to; None: all
        self.documents = None  # (each token's document, and its position there) [batch, time]; None: one per sequence
        query_size, kv_size = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.query = nn.Linear(config.hidden_size, query_size, bias=config.qkv_bias)
        self.key = nn.Linear(config.hidden_size, kv_size, bias=config.qkv_bias)
        self.value = nn.Linear(config.hidden_size, kv_size, bias=config.qkv_bias)
        self.output = nn.Linear(query_size, config.hidden_size, bias=config.attention_output_bias)
        if config.qk_norm:
            self.query_norm = RmsNorm(config.head_dim, config.norm_eps)
            self.key_norm = RmsNorm(config.head_dim, config.norm_eps)

    def forward(self, x):
        batch, time, _ = x.shape
        query, key, value = (heads.view(batch, time, -1, self.config.head_dim)
                             for heads in apply((self.query, self.key, self.value), x, self.config.fp8, self.config.scaling))
        if self.config.qk_norm:
            query, key = self.query_norm(query), self.key_norm(key)
        query, key, value = (tensor.transpose(1, 2) for tensor in (query, key, value))
        if self.config.position == "rope":
            positions = torch.arange(time)[None] if self.documents is None else self.documents[1]
            query, key = (rotate(heads, self.config.rope_theta, positions) for heads in (query, key))
        group = self.config.heads // self.config.kv_heads  # query heads that share a key and value head
        key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
        scores = query @ key.transpose(-1, -2) / math.sqrt(self.config.head_dim)
        future = torch.ones(time, time, dtype=torch.bool).triu(1)
        if self.kept is not None:
            # A token that is left out attends to itself, so that its result, which nobody reads, is finite.
            future = future | ~(self.kept[:, None, None, :] | torch.eye(time, dtype=torch.bool))
        if self.documents is not None:
            document = self.documents[0]
            future = future | (document[:, None, :, None] != document[:, None, None, :])
        weights = scores.masked_fill(future, -torch.inf).softmax(-1)
        attended = (weights @ value).transpose(1, 2).reshape(batch, time, -1)
        (result,) = apply((self.output,), attended, self.config.fp8, self.config.scaling)
        return result


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.fp8, self.scaling, self.activation = config.fp8, config.scaling, ACTIVATIONS[config.activation]
        if config.activation in GATED:
            self.gate = nn.Linear(config.hidden_size, config.ffn_hidden_size, bias=config.bias)
        self.up = nn.Linear(config.hidden_size, config.ffn_hidden_size, bias=config.bias)
        self.down = nn.Linear(config.ffn_hidden_size, config.hidden_size, bias=config.bias)

    def forward(self, x):
        if hasattr(self, "gate"):
            gate, up = apply((self.gate, self.up), x, self.fp8, self.scaling)
            activated = self.activation(gate, up)
        else:
            activated = self.activation(*apply((self.up,), x, self.fp8, self.scaling))
        (result,) = apply((self.down,), activated, self.fp8, self.scaling)
        return result


def resolve_experts(config):
    """The `moe` section with its defaults."""
    moe = {"top_k": 1, "capacity_factor": 1.0, "router": "linear", "priority": "position", "balance_loss": "gshard",
           "balance_coefficient": 0.01, "z_coefficient": 0.0, "jitter": 0.0, "shared_experts": 0, "shared_gate": False,
           "every": 1, "dense_layers": 0, **config.moe}
    moe = {"normalize_gates": moe["top_k"] > 1, "gate_noise": float(moe["balance_loss"] == "load_importance"), **moe}
    return SimpleNamespace(**moe)


def has_transformers_block(config, moe):
    beyond = (moe.capacity_factor, moe.jitter, moe.gate_noise, config.bias, config.activation != "swiglu",
              moe.router != "linear", moe.balance_loss != "gshard")
    return not any(beyond)


def shared_network(config, moe):
    """One network as wide as all shared experts together."""
    return FeedForward(SimpleNamespace(**{**vars(config), "ffn_hidden_size": moe.shared_experts * moe.ffn_hidden_size}))


class PlainMixture(RoutedExperts):
    """What transformers' blocks cannot do, plus shared experts."""

    def __init__(self, config, moe, layer):
        super().__init__(config, moe, layer, ACTIVATIONS[config.activation])
        if moe.shared_gate:
            self.shared_gate = nn.Linear(config.hidden_size, 1, bias=False)
        if moe.shared_experts > 0:
            self.shared = shared_network(config, moe)

    def forward(self, x):
        y = super().forward(x)
        if self.moe.shared_experts == 0:
            return y
        shared = self.shared(x)
        return y + (self.shared_gate(x).sigmoid() * shared if self.moe.shared_gate else shared)


class Mixture(nn.Module):
    """transformers' own block, with llmtrain's names: Qwen2-MoE's where shared experts have a gate, else Mixtral's where
    gates are normalized, else Qwen3-MoE's, plus shared experts. The routers' losses are those of docs/experts.md, with their coefficients."""

    def __init__(self, config, moe):
        super().__init__()
        self.moe = moe
        normalize, hidden, width = moe.normalize_gates, config.hidden_size, moe.ffn_hidden_size
        self.router = nn.Linear(hidden, moe.experts, bias=False)
        self.experts = nn.ModuleDict({"gate": Stack(moe.experts, width, hidden), "up": Stack(moe.experts, width, hidden),
                                      "down": Stack(moe.experts, hidden, width)})
        if moe.shared_gate:
            self.shared_gate = nn.Linear(hidden, 1, bias=False)
        if moe.shared_experts > 0:
            self.shared = shared_network(config, moe)
        sizes = dict(hidden_size=hidden, num_experts_per_tok=moe.top_k, hidden_act="silu", experts_implementation="eager")
        if hasattr(self, "shared_gate"):
            block = Qwen2MoeSparseMoeBlock(Qwen2MoeConfig(num_experts=moe.experts, moe_intermediate_size=width,
                                                          shared_expert_intermediate_size=moe.shared_experts * width,
                                                          norm_topk_prob=normalize, **sizes))
        elif normalize:
            block = MixtralSparseMoeBlock(MixtralConfig(num_local_experts=moe.experts, intermediate_size=width, **sizes))
        else:
            block = Qwen3MoeSparseMoeBlock(Qwen3MoeConfig(num_experts=moe.experts, moe_intermediate_size=width,
                                                          norm_topk_prob=False, **sizes))
        self.block = [block]  # in a list, so that its parameters, which this class replaces, are not registered

    def forward(self, x):
        experts = self.experts
        weights = {"gate.weight": self.router.weight, "experts.down_proj": experts["down"].weight,
                   "experts.gate_up_proj": torch.cat((experts["gate"].weight, experts["up"].weight), 1)}
        if hasattr(self, "shared_gate"):
            weights |= {f"shared_expert.{name}_proj.weight": getattr(self.shared, name).weight
                        for name in ("gate", "up", "down")}
            weights["shared_expert_gate.weight"] = self.shared_gate.weight
        y = torch.func.functional_call(self.block[0], weights, (x,))
        self.loss = self.router_loss(self.router(x).flatten(0, -2))
        return y + self.shared(x) if hasattr(self, "shared") and not hasattr(self, "shared_gate") else y

    def router_loss(self, logits):
        probabilities = logits.softmax(-1)
        first = functional.one_hot(probabilities.argmax(-1), self.moe.experts).to(logits.dtype)
        balance = self.moe.experts * (first.mean(0) * probabilities.mean(0)).sum()
        z = logits.logsumexp(-1).square().mean()
        return self.moe.balance_coefficient * balance + self.moe.z_coefficient * z


class Layer(nn.Module):
    def __init__(self, config, index):
        super().__init__()
        self.attention_norm, self.attention = make_norm(config), Attention(config)
        self.parallel = config.parallel_residual
        if self.parallel != "one_norm":
            self.ffn_norm = make_norm(config)
        self.ffn = self.network(config, index)
        if config.post_norms:
            self.attention_post_norm, self.ffn_post_norm = make_norm(config), make_norm(config)

    @staticmethod
    def network(config, index):
        moe = resolve_experts(config) if hasattr(config, "moe") else None
        if moe is None or index < moe.dense_layers or (index + 1) % moe.every != 0:
            return FeedForward(config)
        return Mixture(config, moe) if has_transformers_block(config, moe) else PlainMixture(config, moe, index)

    def forward(self, x):
        normed = self.attention_norm(x)
        attended = self.attention(normed)
        if hasattr(self, "attention_post_norm"):
            attended = self.attention_post_norm(attended)
        y = x + attended
        if self.parallel == "one_norm":
            made = self.ffn(normed)
        else:
            made = self.ffn(self.ffn_norm(y if self.parallel == "none" else x))
        y = y + (self.ffn_post_norm(made) if hasattr(self, "ffn_post_norm") else made)
        return y if self.attention.kept is None else torch.where(self.attention.kept[..., None], y, x)


class ReferenceModel(nn.Module):
    def __init__(self, model, fp8="off", first_layers=0, scaling=None):
        """`first_layers` of the layers stay in high precision."""
        super().__init__()
        self.config = config = resolve(model)
        config.fp8, config.scaling = fp8, scaling or CurrentScaling()
        config.seed, config.step = 1234, 0  # of random numbers
        self.embedding = nn.ModuleDict({"token": nn.Embedding(config.vocab_size, config.hidden_size)})
        if config.position == "learned":
            self.embedding["position"] = nn.Embedding(config.max_sequence_length, config.hidden_size)
        plain = SimpleNamespace(**{**vars(config), "fp8": "off"})
        self.layers = nn.ModuleList(Layer(plain if index < first_layers else config, index)
                                    for index in range(config.layers))
        self.final_norm = make_norm(config)
        if not config.tie_embeddings:
            self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

    def forward(self, tokens):
        x = self.embedding["token"](tokens) * self.config.embedding_scale
        if self.config.position == "learned":
            documents = self.layers[0].attention.documents
            positions = torch.arange(tokens.shape[-1]) if documents is None else documents[1]
            x = x + self.embedding["position"](positions)
        for layer in self.layers:
            x = layer(x)
        head = self.embedding["token"] if self.config.tie_embeddings else self.head
        return functional.linear(self.final_norm(x), head.weight)

    def router_loss(self):
        """The routers' losses in the last forward, with their coefficients."""
        return sum(layer.ffn.loss for layer in self.layers if isinstance(layer.ffn, (Mixture, PlainMixture)))

    def randomize(self, seed):
        """Weights under which every parameter matters: no bias is zero, no norm is one."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                noise = torch.randn(parameter.shape, generator=generator)
                is_norm = "norm" in name and name.endswith("weight")
                fan_in = parameter.shape[-1] if parameter.dim() >= 2 and "embedding" not in name else 100
                parameter.copy_(1 + 0.1 * noise if is_norm else noise * fan_in ** -0.5)
