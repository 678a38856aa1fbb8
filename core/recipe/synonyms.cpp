// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/synonyms.h"

namespace llmtrain {

std::span<const Synonyms> key_synonyms() {
  static const std::vector<Synonyms> synonyms = {
      {"/parallel/tensor", {"tp", "tp_size", "tensor_parallel", "tensor_parallel_size", "tensor_model_parallel_size"}},
      {"/parallel/pipeline", {"pp", "pp_size", "pipeline_parallel", "pipeline_model_parallel_size"}},
      {"/parallel/data", {"dp", "data_parallel"}},
      {"/parallel/context", {"cp"}},
      {"/parallel/expert", {"ep"}},
      {"/parallel/sequence", {"sp"}},
      {"/parallel/zero_stage", {"zero"}},
      {"/training/learning_rate/peak", {"lr", "max_lr"}},
      {"/training/learning_rate/minimum", {"min_lr"}},
      {"/training/learning_rate/schedule", {"lr_schedule"}},
      {"/training/learning_rate/warmup_steps", {"warmup", "warmup_iters"}},
      // Schedules in other sections have a key "steps", too.
      {"/training/steps",
       {"steps", "max_steps", "train_steps", "iterations", "max_iters", "train_iters", "epochs", "num_train_epochs"}},
      {"/training/clip_norm", {"grad_clip", "max_grad_norm"}},
      {"/model/layers", {"n_layer", "n_layers", "num_layers", "num_hidden_layers"}},
      {"/model/hidden_size", {"hidden", "hidden_dim", "n_embd", "d_model"}},
      {"/model/heads", {"n_head", "n_heads", "num_heads", "num_attention_heads"}},
      {"/model/kv_heads", {"n_kv_heads", "num_key_value_heads"}},
      {"/model/ffn_hidden_size", {"intermediate_size", "d_ff"}},
      {"/model/max_sequence_length",
       {"max_seq_len", "max_seq_length", "max_position_embeddings", "n_positions", "block_size", "context_length"}},
      {"/model/norm_eps", {"rms_norm_eps"}},
      {"/model/tie_embeddings", {"tie_word_embeddings"}},
      {"/batch/sequence_length", {"seq_len"}},
      // One step's sequences follow from it, and not from a number of micro-batches.
      {"/batch/global",
       {"batch_size", "train_batch_size", "global_batch", "global_batch_size", "/batch/size",
        "gradient_accumulation_steps", "gradient_accumulation"}},
      {"/batch/micro", {"micro_batch", "micro_batch_size", "per_device_train_batch_size"}},
      {"/precision/compute", {"dtype", "bf16", "fp16", "mixed_precision"}},
      {"/precision/fp8_level", {"fp8"}},
      {"/memory/recompute", {"gradient_checkpointing", "activation_checkpointing"}},
      {"/$schema", {"schema"}},
      {"/model/moe/experts", {"num_experts", "n_experts"}},
      {"/launch/ranks", {"gpus", "num_gpus", "n_gpus", "devices", "world_size", "nproc_per_node"}},
      {"/checkpoint/every", {"save_steps", "save_every", "save_interval", "/checkpoint/interval", "/checkpoint/steps"}},
      {"/training/evaluate_every", {"eval_steps", "eval_every", "eval_interval"}},
      {"/log/every", {"log_interval", "logging_steps", "/log/interval", "/log/steps"}},
      // Checkpoints lie in it.
      {"/log/directory",
       {"output_dir", "out_dir", "save_dir", "dir", "/checkpoint/path", "/checkpoint/folder", "/log/path"}},
      {"/cluster/profile", {"machine", "hardware", "gpu_type"}},
      {"/data/curriculum", {"curriculum_learning"}},
      {"/training/token_dropping", {"random_ltd", "data_routing"}},
      {"/data/train", {"dataset", "train_data", "data_path"}},
  };
  return synonyms;
}

std::span<const Synonyms> value_synonyms() {
  static const std::vector<Synonyms> synonyms = {
      {"cuda", {"gpu", "nvidia"}},    {"bf16", {"bfloat16"}},        {"fp16", {"float16", "half"}},
      {"fp32", {"float32", "float"}}, {"swiglu", {"silu", "swish"}},
  };
  return synonyms;
}

}  // namespace llmtrain
