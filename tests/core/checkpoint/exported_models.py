# SPDX-License-Identifier: Apache-2.0
"""Small models of every architecture that is exported, for huggingface_roundtrip_test.py."""

SHAPE = {"layers": 2, "hidden_size": 24, "heads": 4, "vocab_size": 29, "max_sequence_length": 16}

# Our model keys, and the class that the export must load as.
MODELS = {
    "gpt2": ({"architecture": "gpt2"}, "GPT2LMHeadModel"),
    "gpt2_untied_exact_gelu": (
        {"architecture": "gpt2", "tie_embeddings": False, "activation": "gelu", "ffn_hidden_size": 40, "norm_eps": 1e-6},
        "GPT2LMHeadModel",
    ),
    "llama": ({"architecture": "llama", "kv_heads": 2, "head_dim": 10}, "LlamaForCausalLM"),
    "llama_tied": ({"architecture": "llama", "tie_embeddings": True, "rope_theta": 500000}, "LlamaForCausalLM"),
    "llama_biases": ({"architecture": "llama", "bias": True, "qkv_bias": True, "kv_heads": 1}, "LlamaForCausalLM"),
    "llama_attention_biases": (
        {"architecture": "llama", "qkv_bias": True, "attention_output_bias": True, "kv_heads": 2}, "LlamaForCausalLM"),
    "llama_network_biases": ({"architecture": "llama", "bias": True, "attention_output_bias": False}, "LlamaForCausalLM"),
    "qwen3_attention_biases": (
        {"architecture": "llama", "qk_norm": True, "qkv_bias": True, "attention_output_bias": True, "head_dim": 10},
        "Qwen3ForCausalLM"),
    "qwen3_moe_attention_biases": (
        {"architecture": "llama", "qk_norm": True, "qkv_bias": True, "attention_output_bias": True,
         "moe": {"experts": 4, "top_k": 2, "ffn_hidden_size": 20}}, "Qwen3MoeForCausalLM"),
    "llama_uneven": ({"architecture": "llama", "hidden_size": 26, "head_dim": 8, "sliding_window": {"tokens": 5}}, "MistralForCausalLM"),
    "qwen2": ({"architecture": "llama", "qkv_bias": True, "kv_heads": 2, "norm_eps": 1e-6}, "Qwen2ForCausalLM"),
    "qwen2_head_dim": ({"architecture": "llama", "qkv_bias": True, "head_dim": 10}, "Qwen2ForCausalLM"),
    "qwen3": ({"architecture": "llama", "qk_norm": True, "kv_heads": 2, "head_dim": 12}, "Qwen3ForCausalLM"),
    "mixtral": (
        {"architecture": "llama", "kv_heads": 2, "moe": {"experts": 3, "top_k": 2, "ffn_hidden_size": 20}},
        "MixtralForCausalLM",
    ),
    "qwen3_moe": (
        {"architecture": "llama", "qk_norm": True, "ffn_hidden_size": 28,
         "moe": {"experts": 5, "top_k": 3, "dense_layers": 1, "normalize_gates": False, "ffn_hidden_size": 20}},
        "Qwen3MoeForCausalLM",
    ),
    "qwen2_moe": (
        {"architecture": "llama", "qkv_bias": True, "kv_heads": 2, "ffn_hidden_size": 28,
         "moe": {"experts": 5, "top_k": 3, "every": 2, "normalize_gates": False, "ffn_hidden_size": 12,
                 "shared_experts": 3, "shared_gate": True}},
        "Qwen2MoeForCausalLM",
    ),
    "qwen2_moe_without_biases": (
        {"architecture": "llama", "head_dim": 10,
         "moe": {"experts": 4, "top_k": 2, "ffn_hidden_size": 12, "shared_experts": 1, "shared_gate": True}},
        "Qwen2MoeForCausalLM",
    ),
    "qwen3_tied": ({"architecture": "llama", "qk_norm": True, "tie_embeddings": True}, "Qwen3ForCausalLM"),
}
