// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/synonyms.h"

namespace llmtrain {
namespace {

std::vector<Synonyms> layer_names() {
  return {
      {"/model/sliding_window/tokens", {"window_size"}},
      {"/model/sliding_window/global_every", {"sliding_window_pattern", "layer_types", "window_attn_skip_freq"}},
      {"/model/sliding_window/rope_theta", {"rope_local_base_freq"}},
      {"/model/attention_scale", {"query_pre_attn_scalar", "softmax_scale"}},
      {"/model/attention_sinks", {"softmax_type", "sinks"}},
      {"/model/parallel_residual", {"use_parallel_residual", "parallel_attn"}},
      {"/model/post_norms", {"sandwich_norm"}},
      {"/model/embedding_scale", {"embedding_multiplier"}},
      {"/model/rotary_dim", {"rotary_pct", "partial_rotary_factor", "rotary_percent"}},
      {"/model/attention_gate", {"attn_output_gate", "attention_output_gate"}},
      {"/model/layer_kinds", {"hybrid_override_pattern", "full_attention_interval", "layers_block_type"}},
      {"/model/linear_attention/key_heads", {"linear_num_key_heads", "n_groups", "mamba_num_groups"}},
      {"/model/linear_attention/value_heads", {"linear_num_value_heads", "mamba_num_heads"}},
      {"/model/linear_attention/key_head_dim", {"linear_key_head_dim", "ssm_state_size", "mamba_state_dim"}},
      {"/model/linear_attention/value_head_dim", {"linear_value_head_dim", "mamba_head_dim"}},
      {"/model/linear_attention/convolution", {"linear_conv_kernel_dim", "conv_kernel"}},
      {"/model/linear_attention/convolution_bias", {"use_conv_bias"}},
      {"/model/linear_attention/chunk", {"chunk_size"}},
      {"/model/multi_token_prediction/depth", {"num_nextn_predict_layers", "mtp_num_layers"}},
      {"/model/multi_token_prediction/coefficient", {"mtp_loss_scaling_factor"}},
      {"/model/latent_attention/query_rank", {"q_lora_rank"}},
      {"/model/latent_attention/key_value_rank", {"kv_lora_rank"}},
      {"/model/latent_attention/nope_head_dim", {"qk_nope_head_dim", "qk_head_dim"}},
      {"/model/latent_attention/rope_head_dim", {"qk_rope_head_dim", "qk_pos_emb_head_dim"}},
      {"/model/latent_attention/value_head_dim", {"v_head_dim"}},
  };
}

std::vector<Synonyms> model_names() {
  return {
      {"/model/layers", {"n_layer", "n_layers", "num_layers", "num_hidden_layers"}},
      {"/model/hidden_size", {"hidden", "hidden_dim", "n_embd", "d_model"}},
      {"/model/heads", {"n_head", "n_heads", "num_heads", "num_attention_heads"}},
      {"/model/kv_heads", {"n_kv_heads", "num_key_value_heads", "num_query_groups"}},
      {"/model/ffn_hidden_size", {"intermediate_size", "d_ff", "n_inner"}},
      {"/model/max_sequence_length",
       {"max_seq_len", "max_seq_length", "max_position_embeddings", "n_positions", "block_size", "context_length"}},
      {"/model/norm_eps", {"rms_norm_eps", "layer_norm_epsilon", "norm_epsilon"}},
      {"/model/tie_embeddings", {"tie_word_embeddings", "untie_embeddings_and_output_weights"}},
      {"/model/moe/experts", {"num_experts", "n_experts", "num_local_experts"}},
      {"/model/from", {"model_name_or_path", "base_model"}},
      {"/model/head_dim", {"kv_channels"}},
      {"/model/activation", {"hidden_act", "activation_function", "swiglu"}},
      {"/model/norm", {"normalization"}},
      {"/model/position", {"position_embedding_type"}},
      {"/model/rope_theta", {"rotary_base"}},
      {"/model/bias", {"mlp_bias", "disable_bias_linear"}},
      {"/model/qkv_bias", {"attention_bias", "add_qkv_bias"}},
      {"/model/qk_norm", {"qk_layernorm"}},
      {"/model/dropout", {"attention_dropout", "resid_pdrop", "hidden_dropout"}},
      {"/model/init_std", {"initializer_range", "init_method_std"}},
      {"/model/moe/dense_layers", {"first_k_dense_replace"}},
      {"/model/moe/score_function", {"scoring_func", "moe_router_score_function"}},
      {"/model/moe/selection_bias", {"moe_router_enable_expert_bias"}},
      {"/model/moe/groups", {"n_group", "moe_router_num_groups"}},
      {"/model/moe/top_groups", {"topk_group", "moe_router_group_topk"}},
      {"/model/moe/gate_scale", {"routed_scaling_factor", "moe_router_topk_scaling_factor"}},
      {"/model/moe/top_k", {"num_experts_per_tok", "moe_router_topk"}},
      {"/model/moe/ffn_hidden_size", {"moe_intermediate_size", "moe_ffn_hidden_size"}},
      {"/model/moe/capacity_factor", {"moe_expert_capacity_factor"}},
      {"/model/moe/balance_coefficient", {"router_aux_loss_coef", "moe_aux_loss_coeff"}},
      {"/model/moe/z_coefficient", {"moe_z_loss_coeff"}},
      {"/model/moe/jitter", {"router_jitter_noise", "moe_input_jitter_eps"}},
      {"/model/moe/normalize_gates", {"norm_topk_prob"}},
      {"/model/lora/rank", {"lora_r"}},
      {"/model/lora/alpha", {"lora_alpha"}},
      {"/model/lora/dora", {"use_dora", "peft_use_dora"}},
      {"/model/lora/dropout", {"lora_dropout"}},
      {"/model/lora/rank_stabilized", {"use_rslora", "peft_use_rslora"}},
      {"/model/lora/targets", {"target_modules", "lora_target_modules"}},
      {"/model/lora/modules_to_save", {"lora_modules_to_save"}},
  };
}

std::vector<Synonyms> training_names() {
  return {
      {"/training/learning_rate/peak", {"lr", "max_lr"}},
      {"/training/learning_rate/minimum", {"min_lr", "cosine_min_lr_ratio"}},
      {"/training/learning_rate/schedule", {"lr_schedule", "lr_scheduler", "lr_scheduler_type", "lr_decay_style"}},
      {"/training/learning_rate/warmup_steps", {"warmup", "warmup_iters", "lr_warmup_iters"}},
      // Schedules in other sections have a key "steps", too.
      {"/training/steps", {"steps", "max_steps", "train_steps", "iterations", "max_iters", "train_iters"}},
      {"/training/epochs", {"epochs", "num_epochs", "num_train_epochs"}},
      {"/training/clip_norm", {"grad_clip", "max_grad_norm", "clip_grad", "gradient_clipping"}},
      {"/batch/sequence_length", {"seq_len", "max_length", "sequence_len", "seq_length"}},
      // One step's sequences follow from it, and not from a number of micro-batches.
      {"/batch/global",
       {"batch_size", "train_batch_size", "global_batch", "global_batch_size", "/batch/size",
        "gradient_accumulation_steps", "gradient_accumulation"}},
      {"/batch/growth", {"rampup_batch_size", "batch_size_rampup", "rampup"}},
      {"/batch/micro",
       {"micro_batch", "micro_batch_size", "per_device_train_batch_size", "train_micro_batch_size_per_gpu"}},
      {"/training/evaluate_every", {"eval_steps", "eval_every", "eval_interval"}},
      {"/training/token_dropping", {"random_ltd", "data_routing"}},
      {"/training/learning_rate/decay_steps", {"lr_decay_iters"}},
      {"/training/optimizer/name", {"optim"}},
      {"/training/optimizer/beta1", {"adam_beta1"}},
      {"/training/optimizer/beta2", {"adam_beta2"}},
      {"/training/optimizer/eps", {"adam_epsilon", "adam_eps"}},
      {"/training/evaluate_batches", {"eval_iters"}},
  };
}

std::vector<Synonyms> data_names() {
  return {
      {"/$schema", {"schema"}},
      {"/data/curriculum", {"curriculum_learning", "curriculum_sampling"}},
      {"/data/train", {"dataset", "train_data", "data_path", "dataset_name", "datasets"}},
      {"/data/validation", {"test_datasets", "valid_data_path"}},
      {"/data/masking/probability", {"mlm_probability", "masked_lm_prob"}},
      {"/data/masking/whole_words", {"whole_word_mask", "whole_word_masking", "do_whole_word_mask"}},
      {"/data/fine_tuning/template", {"chat_template", "chat_template_path"}},
      {"/data/fine_tuning/loss", {"assistant_only_loss", "completion_only_loss", "train_on_inputs"}},
      {"/data/fine_tuning/packing", {"sample_packing"}},
      {"/data/document_mask", {"reset_attention_mask", "reset_position_ids"}},
  };
}

std::vector<Synonyms> layout_names() {
  return {
      {"/parallel/tensor", {"tp", "tp_size", "tensor_parallel", "tensor_parallel_size", "tensor_model_parallel_size"}},
      {"/parallel/pipeline", {"pp", "pp_size", "pipeline_parallel", "pipeline_model_parallel_size"}},
      {"/parallel/data", {"dp", "data_parallel"}},
      {"/parallel/context", {"cp", "context_parallel_size", "sequence_parallel_size"}},
      {"/parallel/expert", {"ep", "ep_size", "expert_model_parallel_size"}},
      {"/parallel/sequence", {"sp", "sequence_parallel"}},
      {"/parallel/zero_stage",
       {"zero", "deepspeed", "fsdp", "fsdp_config", "use_distributed_optimizer", "zero_optimization"}},
      {"/precision/compute", {"dtype", "bf16", "fp16", "mixed_precision"}},
      {"/precision/fp8_level", {"fp8", "fp8_format"}},
      {"/memory/recompute", {"gradient_checkpointing", "activation_checkpointing", "recompute_granularity"}},
      {"/precision/gradients", {"accumulate_allreduce_grads_in_fp32"}},
      {"/precision/loss_scale/initial", {"initial_loss_scale"}},
      {"/precision/loss_scale/growth_steps", {"loss_scale_window"}},
      {"/parallel/expert_tensor", {"expert_tensor_parallel_size"}},
      {"/parallel/overlap", {"overlap_grad_reduce"}},
      {"/pipeline/loops", {"num_virtual_stages_per_pipeline_rank"}},
      {"/memory/offload/optimizer", {"optimizer_cpu_offload"}},
      {"/kernels/attention", {"attn_implementation", "flash_attention", "attention_backend"}},
  };
}

std::vector<Synonyms> running_names() {
  return {
      {"/launch/ranks", {"gpus", "num_gpus", "n_gpus", "devices", "world_size", "nproc_per_node"}},
      {"/checkpoint/every", {"save_steps", "save_every", "save_interval", "/checkpoint/interval", "/checkpoint/steps"}},
      {"/log/every", {"log_interval", "logging_steps", "/log/interval", "/log/steps", "steps_per_print"}},
      // Checkpoints lie in it.
      {"/log/directory",
       {"output_dir", "out_dir", "save_dir", "dir", "/checkpoint/path", "/checkpoint/folder", "/log/path", "/save"}},
      {"/cluster/profile", {"machine", "hardware", "gpu_type"}},
      {"/launch/watchdog_seconds", {"ddp_timeout", "distributed_timeout_minutes"}},
      {"/checkpoint/keep", {"save_total_limit"}},
      {"/checkpoint/resume", {"resume_from_checkpoint", "/load"}},
  };
}

}  // namespace

std::span<const Synonyms> key_synonyms() {
  static const std::vector<Synonyms> synonyms = [] {
    std::vector<Synonyms> all;
    for (const auto& names :
         {model_names(), layer_names(), training_names(), data_names(), layout_names(), running_names()})
      all.insert(all.end(), names.begin(), names.end());
    return all;
  }();
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
