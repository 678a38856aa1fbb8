// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain::test {

using Json = nlohmann::ordered_json;

// Only the keys without a default.
inline Json small_recipe() {
  return Json::parse(R"({
    "model": {"layers": 4, "hidden_size": 64, "heads": 8, "vocab_size": 512, "max_sequence_length": 128},
    "batch": {"global": 8, "micro": 2},
    "training": {"steps": 100}})");
}

// A value in every section, none of them a default.
inline Json large_recipe() {
  return Json::parse(R"({
    "$schema": "recipe.schema.json", "name": "large", "description": "every section", "seed": 7,
    "model": {"architecture": "llama", "resnet": null, "layers": 8, "decoder_layers": 0, "hidden_size": 64, "heads": 8, "latent_attention": null, "kv_heads": 4, "head_dim": 16,
      "ffn_hidden_size": 192, "image": null, "vocab_size": 1000, "max_sequence_length": 256, "activation": "gelu",
      "norm": "layernorm", "norm_eps": 1e-6, "position": "rope", "rope_theta": 500000,
      "rope_scaling": {"type": "yarn", "factor": 8, "original_max_sequence_length": 64, "low_frequency_factor": 2,
        "high_frequency_factor": 8, "beta_fast": 16, "beta_slow": 2, "attention_factor": 1.5, "truncate": false},
      "sliding_window": {"tokens": 32, "global_every": 4, "rope_theta": 20000, "rope_scaling": false},
      "attention_scale": 0.2, "attention_sinks": true, "attention_gate": true, "rotary_dim": 8, "parallel_residual": "none", "post_norms": true,
      "embedding_scale": 8, "linear_attention": null, "layer_kinds": ["attention", "attention", "feed_forward_alone"],
      "bias": true,
      "qkv_bias": true, "attention_output_bias": false, "qk_norm": true, "tie_embeddings": true, "dropout": 0.1, "init_std": 0.01,
      "moe": {"experts": 8, "top_k": 2, "every": 2, "dense_layers": 1, "capacity_factor": -1.5, "ffn_hidden_size": 96,
        "shared_experts": 1, "shared_gate": true, "router": "cosine", "router_bias": false, "score_function": "softmax", "selection_bias": true,
        "groups": 4, "top_groups": 2, "normalize_gates": false, "gate_scale": 2.5,
        "priority": "score", "balance_loss": "load_importance",
        "balance_coefficient": 0.02, "z_coefficient": 0.001, "jitter": 0.01,
        "gate_noise": 0.5, "routing_zipf": null, "routing_trace": "/runs/other/routing.jsonl"},
      "multi_token_prediction": null, "classifier": null,
      "lora": {"rank": 4, "alpha": 32, "rank_stabilized": true, "dora": true, "dropout": 0.05, "targets": ["*.attention.*.weight"], "modules_to_save": ["norm"], "base": "compute", "double_quantization": false}},
    "data": {"tokenizer": {"sentencepiece": "/data/tokens.model"}, "shuffle": false, "on_bad_line": "skip",
      "fine_tuning": {"template": {"file": "/data/chat.jinja"}, "loss": "all", "packing": false, "date": "2024-07-26",
        "leave_out": ["name"], "preferences": "chosen", "routing_replay": false,
        "fields": {"messages": "a", "role": "b", "content": "c", "prompt": "d", "completion": "e", "instruction": "f",
          "input": "g", "output": "h", "chosen": "i", "rejected": "j"},
        "roles": {"system": ["A"], "user": ["B", "C"], "assistant": ["D"], "tool": ["E"]}},
      "document_mask": null, "masking": null, "denoising": null, "labels": null, "pairs": null, "spans": null, "images": null,
      "curriculum": {"sequence_length": {"start": 32, "steps": 400, "multiple": 16, "degree": 2, "method": "reshape"},
        "vocabulary_rarity": {"start": 5, "steps": 300, "degree": 3}},
      "train": [{"path": "/data/a.txt", "weight": 0.75}, {"path": "/data/b*.bin", "weight": 0.25}],
      "validation": [{"path": "/data/c.txt", "name": "books"}]},
    "batch": {"global": 64, "micro": 2, "sequence_length": 128, "growth": {"start": 32, "increment": 16, "samples": 5000}},
    "training": {"steps": 1000, "epochs": null, "init_from": "hf:/models/gpt2", "adapters_from": "/adapters/a", "evaluate_every": 10, "evaluate_batches": 4, "judged_by": "books", "early_stopping": {"evaluations": 3, "improvement": 0.01}, "generation": null,
      "label_smoothing": 0, "clip_norm": 0.5, "spikes": {"loss": 6.5, "gradient_norm": 8, "window": 64}, "update_in_backward": false, "skip_limit": 5, "rollbacks": 2, "freeze": ["embedding.*", "layers.0.*"],
      "token_dropping": {"start": 48, "steps": 300, "multiple": 24, "degree": 1.5, "first_layers": 2, "last_layers": 3},
      "optimizer": {"name": "adamw", "beta1": 0.8, "beta2": 0.99, "eps": 1e-6, "weight_decay": 0.01,
        "muon": {"momentum": 0.9, "nesterov": false, "steps": 6, "scale": "original"}},
      "learning_rate": {"schedule": "wsd", "clock": "tokens", "peak": 1e-3, "minimum": 1e-5, "warmup_steps": 10, "decay_steps": 900,
        "decay_length": 100, "decay_shape": "one_minus_sqrt", "cycles": 1}},
    "precision": {"compute": "bf16", "gradients": "bf16", "tf32": true, "stochastic_rounding": true, "fp8_level": "O2",
      "fp8_products": "auto", "product_format": "fp8", "fp8_scaling": {"method": "delayed", "history_steps": 16, "margin": 1}, "gradient_scaling": "post",
      "loss_scale": {"initial": 1024, "growth_steps": 500}, "high_precision": {"first_layers": 1, "last_layers": 2, "parameters": ["layers.3.*", "*.down.weight"], "fallback_steps": 8}},
    "parallel": {"tensor": 2, "sequence": false, "pipeline": 2, "context": 2, "expert": 2, "expert_tensor": 1,
      "expert_slices": 1, "expert_overlap": 4, "expert_all_to_all": "hierarchical", "data": 4, "zero_stage": 3, "zero_shard_ranks": 2, "overlap": false},
    "pipeline": {"schedule": "interleaved", "loops": 2, "balance": [3, 1, 2, 2]},
    "memory": {"recompute": "selective", "limit": null, "arena": true, "chunks": 1, "policy": "zero_infinity", "offload": {"optimizer": "disk", "gradients": true, "weights": true, "activations": true, "resident_stages": 1, "folder": "/scratch"}},
    "kernels": {"attention": "math", "cuda_graphs": false},
    "cluster": {"profile": "a100-80gb", "program": "nemo", "nodes": 4, "devices_per_node": 8, "device": "cuda", "price_per_device_hour": 2.5, "currency": "EUR"},
    "launch": {"ranks": 32, "backend": "mpi", "link_delay_microseconds": 5,
      "link_megabytes_per_second": 250.5, "link_message_microseconds": 2, "node_link_speedup": 8, "layer_delay_microseconds": 700, "watchdog_seconds": 60, "time_limit_seconds": 86400, "check_replicas_every": 25, "network_interfaces": ["ib0", "ib1"],
      "slurm": {"launcher": "mpirun", "partition": "long", "account": "physics", "qos": "high", "cpus_per_task": 12, "memory": "200G",
        "exclusive": true, "gpus": "gres", "gpu_type": "h100", "log": "logs/%j", "sbatch": ["--constraint=h100", "--hold"],
        "srun": [], "cpu_bind": "", "requeue_limit": 5, "scratch": "$SLURM_TMPDIR/llmtrain", "modules": ["cuda/12.4"],
        "setup": ["ulimit -l unlimited"], "container": {"image": "llmtrain.sif", "runtime": "apptainer", "mounts": ["/data:/mnt"], "program": "/opt/llmtrain"}}},
    "checkpoint": {"every": 50, "keep": 2, "keep_every": 500, "keep_best": 3, "save_base": true, "async": false, "on_failure": "continue", "resume": "/runs/large/checkpoints/latest"},
    "log": {"directory": "elsewhere", "every": 5, "tensorboard": false, "routing": true, "fp8_statistics": true}})");
}

inline Recipe parse(const std::string& text, const std::vector<Override>& overrides = {}) {
  return parse_recipe(text, "r.json", "/recipes", overrides);
}
inline Recipe parse(const Json& json, const std::vector<Override>& overrides = {}) {
  return parse(json.dump(), overrides);
}

// The lines of the Error(bad_recipe) that the action throws; none if it throws nothing.
template <class Action>
std::vector<std::string> lines_thrown_by(Action action) {
  std::vector<std::string> lines;
  try {
    action();
  } catch (const Error& error) {
    if (error.code() != ExitCode::bad_recipe) throw;
    std::istringstream all(error.what());
    for (std::string line; std::getline(all, line);) lines.push_back(line);
  }
  return lines;
}

// The errors of reading the text.
inline std::vector<std::string> complaints(const std::string& text, const std::vector<Override>& overrides = {}) {
  return lines_thrown_by([&] { parse(text, overrides); });
}

}  // namespace llmtrain::test
