# SPDX-License-Identifier: Apache-2.0
"""Recipes that together cover every key of `model` except dropout and replayed routings, including odd shapes."""
import json
from array import array
from random import Random

# 130 samples and a remainder: an epoch ends in the middle of a batch of 8, and 50 steps take three epochs.
SAMPLES, REST = 130, 5
STEPS = 50
# A warm-up long enough that rounding errors do not grow.
STABLE = {"schedule": "cosine", "peak": 3e-4, "warmup_steps": 20}


def _variant(architecture, layers, hidden, heads, vocab, length, micro=8, training=None, sequence_length=None, **keys):
    model = {"architecture": architecture, "layers": layers, "hidden_size": hidden, "heads": heads,
             "vocab_size": vocab, "max_sequence_length": length, **keys}
    return {"model": model, "batch": {"global": 8, "micro": micro, "sequence_length": sequence_length or length},
            "training": {"steps": STEPS, "learning_rate": STABLE, **(training or {})}}


VARIANTS = {
    "gpt2": _variant("gpt2", 2, 64, 4, 257, 32),
    "gpt-rope": _variant("gpt-rope", 3, 96, 4, 211, 48, micro=4),
    "llama": _variant("llama", 2, 96, 6, 300, 64, micro=2),
    "llama, 6 heads on 2, head_dim 20": _variant("llama", 2, 64, 6, 256, 32, kv_heads=2, head_dim=20),
    "llama, one key head, qk_norm and biases (Qwen3)": _variant(
        "llama", 2, 80, 5, 256, 33, kv_heads=1, head_dim=32, qk_norm=True, qkv_bias=True,
        attention_output_bias=True, tie_embeddings=True, norm_eps=1e-6,
        training={"learning_rate": {**STABLE, "schedule": "wsd", "minimum": 1e-5}}),
    "llama, qkv_bias, theta 1e6 (Qwen2)": _variant(
        "llama", 2, 64, 4, 203, 48, kv_heads=2, qkv_bias=True, rope_theta=1e6, ffn_hidden_size=150,
        training={"optimizer": {"beta1": 0.85, "beta2": 0.99, "eps": 1e-4, "weight_decay": 0.3}}),
    "gpt2, untied, exact gelu": _variant(
        "gpt2", 2, 64, 4, 211, 40, tie_embeddings=False, activation="gelu",
        training={"learning_rate": {**STABLE, "schedule": "linear", "minimum": 3e-5, "decay_steps": 40}}),
    "gpt2, no bias": _variant("gpt2", 3, 64, 2, 256, 32, bias=False, qkv_bias=False,
                              training={"clip_norm": 0.3, "learning_rate": {**STABLE, "schedule": "constant"}}),
    "gpt2, rmsnorm, swiglu with bias": _variant("gpt2", 2, 72, 3, 256, 48, micro=1, norm="rmsnorm",
                                                activation="swiglu", ffn_hidden_size=100),
    "gpt-rope, qk_norm, bias on qkv alone": _variant("gpt-rope", 2, 64, 4, 203, 32, kv_heads=2, head_dim=12,
                                                     qk_norm=True, bias=False, norm_eps=1e-3),
    "llama, 8 experts (Mixtral)": _variant(
        "llama", 2, 64, 4, 256, 32, kv_heads=2,
        moe={"experts": 8, "top_k": 2, "capacity_factor": 0, "ffn_hidden_size": 48, "z_coefficient": 0.01}),
    "llama, qk_norm, 6 experts and a shared one after a dense layer (Qwen3-MoE)": _variant(
        "llama", 2, 64, 4, 203, 40, kv_heads=2, qk_norm=True, ffn_hidden_size=96,
        moe={"experts": 6, "top_k": 3, "capacity_factor": 0, "ffn_hidden_size": 36, "normalize_gates": False,
             "shared_experts": 1, "dense_layers": 1, "balance_coefficient": 0.1}),
    "llama, qkv_bias, 5 experts and a gated shared one (Qwen2-MoE)": _variant(
        "llama", 2, 64, 4, 211, 32, qkv_bias=True,
        moe={"experts": 5, "top_k": 2, "capacity_factor": 0, "ffn_hidden_size": 40, "normalize_gates": False,
             "shared_experts": 2, "shared_gate": True, "z_coefficient": 0.001}),
    "gpt2, 8 experts by score with a cosine router": _variant(
        "gpt2", 2, 64, 4, 257, 16,
        moe={"experts": 8, "top_k": 2, "capacity_factor": 0.7, "priority": "score", "router": "cosine",
             "ffn_hidden_size": 40, "z_coefficient": 0.01, "balance_coefficient": 0.1}),
    "gpt-rope, 6 experts by position, load-importance loss and a gated shared one": _variant(
        "gpt-rope", 2, 64, 4, 211, 16,
        moe={"experts": 6, "top_k": 2, "capacity_factor": 1, "balance_loss": "load_importance", "ffn_hidden_size": 36,
             "balance_coefficient": 0.1, "jitter": 0.2, "shared_experts": 1, "shared_gate": True}),
    "llama, 5 experts with biases, one each": _variant(
        "llama", 2, 64, 4, 203, 16, bias=True,
        moe={"experts": 5, "capacity_factor": -0.8, "ffn_hidden_size": 48, "shared_experts": 2, "every": 2}),
    "llama, geglu_tanh": _variant("llama", 2, 64, 4, 211, 32, activation="geglu_tanh", ffn_hidden_size=96),
    "gpt2, squared_relu": _variant("gpt2", 1, 64, 4, 203, 24, activation="squared_relu"),
    "llama, 4 experts with biases and a clamped swiglu": _variant(
        "llama", 1, 64, 4, 203, 16, bias=True, qkv_bias=True, activation="clamped_swiglu",
        moe={"experts": 4, "top_k": 2, "capacity_factor": 0, "ffn_hidden_size": 48}),
    "gpt-rope, both halves of one input (GPT-NeoX)": _variant("gpt-rope", 2, 64, 4, 203, 32,
                                                              parallel_residual="two_norms"),
    "gpt-rope, both halves of one norm (Falcon), scaled embeddings": _variant(
        "gpt-rope", 2, 64, 4, 203, 32, micro=4, bias=False, qkv_bias=False, parallel_residual="one_norm",
        embedding_scale=3),
    "llama, norms behind the halves, scaled embeddings (Gemma)": _variant(
        "llama", 2, 64, 4, 211, 32, micro=4, kv_heads=2, qk_norm=True, tie_embeddings=True, activation="geglu_tanh",
        ffn_hidden_size=96, post_norms=True, embedding_scale=8),
    "llama, no positions": _variant("llama", 1, 64, 4, 203, 24, position="none"),
    "llama, layernorm with bias, learned, short sequences": _variant(
        "llama", 2, 64, 4, 256, 64, sequence_length=40, norm="layernorm", bias=True, qkv_bias=True, position="learned",
        activation="gelu", ffn_hidden_size=96, training={"clip_norm": 0}),
}

# So small that in few steps no number lies as near to the middle of two FP8 numbers as rounding reaches.
TINY = {architecture: _variant(architecture, 1, 32, 2, 64, 8, training={"steps": 20}) for architecture in ("gpt2", "llama")}


def write_tokens(path, recipe, seed=0):
    """Tokens with something to learn: each depends on the previous one, up to noise."""
    vocab, random, token = recipe["model"]["vocab_size"], Random(seed), 0
    tokens = array("H")
    for _ in range(SAMPLES * recipe["batch"]["sequence_length"] + 1 + REST):
        token = (3 * token + 1 + random.randrange(4)) % vocab
        tokens.append(token)
    with path.open("wb") as file:
        tokens.tofile(file)


def complete(variant, tokens, **sections):
    """The complete recipe of a variant, with data in order and few log lines; `sections` are added or merged."""
    recipe = {**variant, "data": {"train": [{"path": str(tokens)}], "shuffle": False}, "log": {"tensorboard": False}}
    for name, section in sections.items():
        recipe[name] = {**recipe.get(name, {}), **section}
    return recipe


def write_recipe(path, recipe):
    path.write_text(json.dumps(recipe, indent=1), encoding="utf-8")
    return path
