// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "apps/llmtrain/support/support_cases.h"

namespace llmtrain::app {
namespace {

struct KeyGroup {
  std::string_view reason;
  std::vector<std::string_view> keys;  // or sections with all their keys
};

constexpr std::string_view size_reason = "a size or a constant, of which plan and run take all that validate accepts";

const KeyGroup further_sizes{
    size_reason,
    {"model.latent_attention.key_value_rank", "model.latent_attention.nope_head_dim",
     "model.latent_attention.rope_head_dim", "model.latent_attention.value_head_dim",
     "model.linear_attention.key_heads", "model.linear_attention.value_heads", "model.linear_attention.key_head_dim",
     "model.linear_attention.value_head_dim", "model.linear_attention.convolution", "model.linear_attention.chunk",
     "model.moe.groups", "model.sliding_window.rope_theta", "model.multi_token_prediction.coefficient",
     "model.lora.alpha", "model.lora.targets"}};

const KeyGroup files_group{"what files of data call something",
                           {"data.fine_tuning.date", "data.fine_tuning.leave_out", "data.fine_tuning.preferences",
                            "data.fine_tuning.fields", "data.fine_tuning.roles"}};

const KeyGroup data_group{"needs files",
                          {"model.from", "model.moe.routing_trace", "data.train", "data.validation",
                           "training.init_from", "training.adapters_from", "checkpoint.resume"}};

const KeyGroup encoder_group{
    "needs an encoder", {"model.classifier", "data.masking", "data.labels", "data.spans", "training.label_smoothing"}};

const std::array left_out_groups = {
    KeyGroup{"a name or a note", {"$schema", "name", "description", "cluster.currency", "log.directory"}},
    data_group,
    files_group,
    encoder_group,
    KeyGroup{"needs an encoder beside the decoder",
             {"data.denoising", "data.pairs", "model.decoder_layers", "training.generation"}},
    KeyGroup{"needs a model of images", {"data.images", "model.image", "model.resnet"}},
    KeyGroup{size_reason,
             {"seed",
              "model.layers",
              "model.hidden_size",
              "model.heads",
              "model.kv_heads",
              "model.head_dim",
              "model.ffn_hidden_size",
              "model.vocab_size",
              "model.max_sequence_length",
              "model.norm_eps",
              "model.rope_theta",
              "model.rope_scaling.factor",
              "model.rope_scaling.original_max_sequence_length",
              "model.rope_scaling.low_frequency_factor",
              "model.rope_scaling.high_frequency_factor",
              "model.rope_scaling.beta_fast",
              "model.rope_scaling.beta_slow",
              "model.rope_scaling.attention_factor",
              "model.init_std",
              "model.moe.ffn_hidden_size",
              "model.moe.balance_coefficient",
              "data.curriculum.sequence_length.start",
              "data.curriculum.sequence_length.steps",
              "data.curriculum.sequence_length.multiple",
              "data.curriculum.sequence_length.degree",
              "data.curriculum.vocabulary_rarity.start",
              "data.curriculum.vocabulary_rarity.degree",
              "batch",
              "training.steps",
              "training.epochs",
              "training.token_dropping.steps",
              "training.token_dropping.multiple",
              "training.token_dropping.degree",
              "training.token_dropping.first_layers",
              "training.token_dropping.last_layers",
              "precision.fp8_scaling.history_steps",
              "precision.fp8_scaling.margin",
              "precision.loss_scale"}},
    further_sizes,
    KeyGroup{"when and by how much weights change, in every layout alike",
             {"training.clip_norm", "training.spikes", "training.skip_limit", "training.rollbacks",
              "training.optimizer.beta1", "training.optimizer.beta2", "training.optimizer.eps",
              "training.optimizer.weight_decay", "training.optimizer.muon.momentum", "training.optimizer.muon.steps",
              "training.learning_rate"}},
    KeyGroup{
        "what a run does besides training, or plans say besides their steps",
        {"training.evaluate_every", "training.evaluate_batches", "training.judged_by", "training.early_stopping",
         "cluster.profile", "cluster.program", "cluster.price_per_device_hour", "launch.watchdog_seconds",
         "launch.time_limit_seconds", "launch.check_replicas_every", "checkpoint", "log.every", "log.tensorboard"}},
    KeyGroup{"what a Slurm job's script says", {"launch.slurm"}},
};

bool is_within(std::string_view key, std::string_view section) {
  return key.starts_with(section) && (key.size() == section.size() || key[section.size()] == '.');
}

}  // namespace

std::vector<LeftOut> left_out() {
  std::vector<LeftOut> all;
  for (const KeyGroup& group : left_out_groups)
    for (const std::string_view key : group.keys) all.push_back({key, group.reason});
  return all;
}

bool is_left_out(std::string_view key) {
  return std::ranges::any_of(left_out_groups, [&](const KeyGroup& group) {
    return std::ranges::any_of(group.keys, [&](std::string_view section) { return is_within(key, section); });
  });
}

}  // namespace llmtrain::app
