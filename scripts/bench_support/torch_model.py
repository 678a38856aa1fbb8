# SPDX-License-Identifier: Apache-2.0
"""The GPT that llmtrain is timed against, written for speed with common PyTorch practice.

After nanoGPT (github.com/karpathy/nanoGPT, MIT): one fused query-key-value projection, scaled_dot_product_attention,
the loss inside forward so that torch.compile sees it. tests/oracle holds a slower, clearer model for correctness.
"""
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "oracle"))
from model_settings import resolve  # noqa: E402


def make_norm(config, size):
    if config.norm == "rmsnorm":
        return nn.RMSNorm(size, eps=config.norm_eps)
    return nn.LayerNorm(size, eps=config.norm_eps, bias=config.bias)


def rotary_tables(config):
    half = config.head_dim // 2
    frequencies = config.rope_theta ** (-torch.arange(half) / half)
    angles = torch.outer(torch.arange(config.max_sequence_length), frequencies)
    return torch.cat((angles, angles), -1).cos(), torch.cat((angles, angles), -1).sin()


def rotate(x, cosine, sine):
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.sizes = [count * config.head_dim for count in (config.heads, config.kv_heads, config.kv_heads)]
        self.qkv = nn.Linear(config.hidden_size, sum(self.sizes), bias=config.qkv_bias)
        self.output = nn.Linear(self.sizes[0], config.hidden_size, bias=config.bias)
        if config.qk_norm:
            self.query_norm = nn.RMSNorm(config.head_dim, eps=config.norm_eps)
            self.key_norm = nn.RMSNorm(config.head_dim, eps=config.norm_eps)
        if config.position == "rope":
            cosine, sine = rotary_tables(config)
            self.register_buffer("cosine", cosine, persistent=False)
            self.register_buffer("sine", sine, persistent=False)

    def forward(self, x):
        batch, time, _ = x.shape
        query, key, value = (part.view(batch, time, -1, self.config.head_dim).transpose(1, 2)
                             for part in self.qkv(x).split(self.sizes, -1))
        if self.config.qk_norm:
            query, key = self.query_norm(query), self.key_norm(key)
        if self.config.position == "rope":
            cosine, sine = self.cosine[:time].to(query.dtype), self.sine[:time].to(query.dtype)
            query, key = rotate(query, cosine, sine), rotate(key, cosine, sine)
        grouped = self.config.heads != self.config.kv_heads
        y = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=grouped)
        return self.output(y.transpose(1, 2).reshape(batch, time, -1))


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        if config.activation not in ("gelu", "gelu_tanh", "swiglu"):
            raise ValueError(f"model.activation {config.activation} is none that this model has")
        self.gated = config.activation == "swiglu"
        self.approximation = "tanh" if config.activation == "gelu_tanh" else "none"
        if self.gated:
            self.gate = nn.Linear(config.hidden_size, config.ffn_hidden_size, bias=config.bias)
        self.up = nn.Linear(config.hidden_size, config.ffn_hidden_size, bias=config.bias)
        self.down = nn.Linear(config.ffn_hidden_size, config.hidden_size, bias=config.bias)

    def forward(self, x):
        if self.gated:
            return self.down(functional.silu(self.gate(x)) * self.up(x))
        return self.down(functional.gelu(self.up(x), approximate=self.approximation))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.attention_norm, self.attention = make_norm(config, config.hidden_size), Attention(config)
        self.ffn_norm, self.ffn = make_norm(config, config.hidden_size), FeedForward(config)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.ffn(self.ffn_norm(x))


class TorchGpt(nn.Module):
    def __init__(self, model):
        super().__init__()
        config = resolve(model)
        self.token_embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embedding = (nn.Embedding(config.max_sequence_length, config.hidden_size)
                                   if config.position == "learned" else None)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.final_norm = make_norm(config, config.hidden_size)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.apply(self._initialize)
        if config.tie_embeddings:
            self.head.weight = self.token_embedding.weight

    @staticmethod
    def _initialize(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, inputs, targets):
        x = self.token_embedding(inputs)
        if self.position_embedding is not None:
            x = x + self.position_embedding(torch.arange(inputs.shape[1], device=inputs.device))
        for layer in self.layers:
            x = layer(x)
        logits = self.head(self.final_norm(x))
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))
