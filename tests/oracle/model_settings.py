# SPDX-License-Identifier: Apache-2.0
"""What the `model` section of a recipe means where it names nothing, by docs/recipe.md. Needs no package."""
import math
from types import SimpleNamespace

PRESETS = {
    "gpt2": dict(position="learned", norm="layernorm", activation="gelu_tanh", bias=True, qkv_bias=True,
                 tie_embeddings=True),
    "gpt-rope": dict(position="rope", norm="layernorm", activation="gelu_tanh", bias=True, qkv_bias=True,
                     tie_embeddings=False),
    "llama": dict(position="rope", norm="rmsnorm", activation="swiglu", bias=False, qkv_bias=False,
                  tie_embeddings=False),
}


def resolve(model):
    """The `model` section of a recipe with the preset's values and the defaults filled in."""
    hidden = model["hidden_size"]
    llama_ffn = math.ceil(8 * hidden / 3 / 256) * 256
    defaults = dict(kv_heads=model["heads"], head_dim=hidden // model["heads"], norm_eps=1e-5, rope_theta=10000.0,
                    qk_norm=False, parallel_residual="none", post_norms=False, embedding_scale=1.0,
                    ffn_hidden_size=llama_ffn if model["architecture"] == "llama" else 4 * hidden)
    settings = {**defaults, **PRESETS[model["architecture"]], **model}
    return SimpleNamespace(**{"attention_output_bias": settings["bias"], **settings})
