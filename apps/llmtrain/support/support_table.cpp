// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/llmtrain/schema_keys.h"
#include "apps/llmtrain/support/support_cases.h"

namespace llmtrain::app {
namespace {

using Needs = std::vector<std::pair<std::string, std::string>>;

// Values of a key that are tried besides its words, and what they need; without values, what its words need.
struct Tried {
  std::string key;
  std::vector<std::string> values;
  Needs needs{};
};

const Needs needs_experts = {{"model.moe.experts", "4"}};
const Needs needs_images = {{"model.image.size", "16"},
                            {"model.image.patch", "4"},
                            {"model.vocab_size", "1"},
                            {"model.max_sequence_length", "17"},
                            {"model.classifier.classes", R"(["a", "b"])"}};
const Needs needs_stages = {{"model.image.size", "32"},
                            {"model.resnet.groups", "8"},
                            {"model.resnet.stages", R"([{"blocks": 4, "channels": 64}])"},
                            {"model.vocab_size", "1"},
                            {"model.max_sequence_length", "1"},
                            {"model.heads", "1"},
                            {"model.classifier.classes", R"(["a", "b"])"}};
// The key that needs the architecture cannot be the one that brings it.
Needs needs_resnet() {
  Needs needs = needs_stages;
  needs.emplace_back("model.architecture", "resnet");
  return needs;
}
const Needs needs_latent_attention = {{"model.position", "rope"},
                                      {"model.qkv_bias", "false"},
                                      {"model.latent_attention.key_value_rank", "16"},
                                      {"model.latent_attention.nope_head_dim", "16"},
                                      {"model.latent_attention.rope_head_dim", "8"},
                                      {"model.latent_attention.value_head_dim", "16"}};
const Needs needs_linear_attention = {{"model.layer_kinds", R"(["linear", "attention"])"},
                                      {"model.linear_attention.key_heads", "2"},
                                      {"model.linear_attention.value_heads", "4"},
                                      {"model.linear_attention.key_head_dim", "16"},
                                      {"model.linear_attention.value_head_dim", "16"}};
const Needs needs_expert_ranks = {{"model.moe.experts", "4"}, {"parallel.data", "4"}, {"parallel.expert", "2"}};
const Needs needs_expert_shards = {{"model.moe.experts", "4"}, {"parallel.data", "4"}, {"parallel.zero_stage", "3"}};
const Needs needs_yarn = {
    {"model.position", "rope"}, {"model.rope_scaling.factor", "2"}, {"model.rope_scaling.type", "yarn"}};
const Needs needs_muon = {{"training.optimizer.name", "muon"}};
const Needs needs_fp8_products = {{"precision.fp8_level", "O0"}};
const Needs needs_fp8_gradients = {{"precision.fp8_level", "O1"}};
const Needs needs_pipeline = {{"parallel.pipeline", "2"}};
const Needs needs_replicas = {{"parallel.data", "4"}};
const Needs needs_all_devices = {{"parallel.data", "auto"}};
const Needs needs_emulation = {{"launch.backend", "local"}};

void add_model(std::vector<Tried>& tried) {
  const auto add = [&](Tried one) { tried.push_back(std::move(one)); };
  add({"model.architecture", {"vit"}, needs_images});
  add({"model.architecture", {"resnet"}, needs_stages});
  add({"model.norm", {"groupnorm"}, needs_resnet()});
  add({"model.position", {"relative"}, {{"model.architecture", "t5"}}});
  add({"model.rope_scaling.type", {}, {{"model.position", "rope"}, {"model.rope_scaling.factor", "2"}}});
  add({"model.rope_scaling.truncate", {}, needs_yarn});
  add({"model.sliding_window.tokens", {"32"}});
  add({"model.sliding_window.global_every", {"0", "2"}, {{"model.sliding_window.tokens", "32"}}});
  add({"model.sliding_window.rope_scaling", {}, {{"model.sliding_window.tokens", "32"}}});
  add({"model.attention_scale", {"0.1"}});
  add({"model.rotary_dim", {"auto", "8"}, {{"model.position", "rope"}}});
  add({"model.embedding_scale", {"8"}});
  add({"model.linear_attention.kind", {}, needs_linear_attention});
  add({"model.linear_attention.convolution_bias", {}, needs_linear_attention});
  add({"model.layer_kinds", {R"(["attention_alone", "feed_forward_alone"])"}});
  add({"model.dropout", {"0.1"}});
  add({"model.latent_attention.query_rank", {"0", "32"}, needs_latent_attention});
  add({"model.multi_token_prediction.depth", {"1"}});
  add({"model.moe.experts", {"4"}});
  add({"model.moe.top_k", {"2"}, needs_experts});
  add({"model.moe.every", {"2"}, needs_experts});
  add({"model.moe.dense_layers", {"1"}, needs_experts});
  add({"model.moe.top_groups", {"1"}, {{"model.moe.experts", "4"}, {"model.moe.groups", "2"}}});
  add({"model.moe.gate_scale", {"2.5"}, needs_experts});
  add({"model.moe.capacity_factor", {"0"}, needs_experts});
  add({"model.moe.shared_experts", {"1"}, needs_experts});
  add({"model.moe.shared_gate", {}, {{"model.moe.experts", "4"}, {"model.moe.shared_experts", "1"}}});
  for (const char* key :
       {"router", "router_bias", "score_function", "selection_bias", "normalize_gates", "priority", "balance_loss"})
    add({std::string("model.moe.") + key, {}, needs_experts});
  add({"model.moe.z_coefficient", {"0.001"}, needs_experts});
  add({"model.moe.jitter", {"0.1"}, needs_experts});
  add({"model.moe.gate_noise", {"1"}, needs_experts});
  add({"model.moe.routing_zipf", {"1"}, needs_experts});
  add({"model.lora.rank", {"8"}});
  add({"model.lora.rank_stabilized", {}, {{"model.lora.rank", "8"}}});
  add({"model.lora.dora", {}, {{"model.lora.rank", "8"}}});
  add({"model.lora.dropout", {"0.1"}, {{"model.lora.rank", "8"}}});
  add({"model.lora.base", {}, {{"model.lora.rank", "8"}}});
  add({"model.lora.double_quantization", {}, {{"model.lora.rank", "8"}}});
  add({"model.lora.modules_to_save", {R"(["embed_tokens"])"}, {{"model.lora.rank", "8"}}});
}

void add_training(std::vector<Tried>& tried) {
  const auto add = [&](Tried one) { tried.push_back(std::move(one)); };
  const std::string tokenizer = R"({"huggingface": "tokenizer.json"})";
  add({"data.tokenizer", {R"({"sentencepiece": "tokenizer.model"})", tokenizer}});
  for (const char* key : {"loss", "packing"})
    add({std::string("data.fine_tuning.") + key, {}, {{"data.fine_tuning.template", "chatml"}}});
  add({"data.fine_tuning.routing_replay",
       {"true"},
       {{"data.fine_tuning.template", "chatml"}, {"model.moe.experts", "4"}, {"model.moe.capacity_factor", "0"}}});
  add({"data.document_mask.end_of_text", {"auto"}, {{"data.tokenizer", tokenizer}}});
  add({"data.document_mask.end_of_text", {"0"}});
  add({"data.curriculum.sequence_length.method",
       {},
       {{"data.curriculum.sequence_length.start", "16"}, {"data.curriculum.sequence_length.steps", "10"}}});
  add({"data.curriculum.vocabulary_rarity.steps", {"10"}});
  add({"training.freeze", {R"(["layers.0.*"])"}});
  add({"training.token_dropping.start", {"16"}, {{"training.token_dropping.steps", "10"}}});
  add({"training.update_in_backward", {}, {{"training.clip_norm", "0"}}});
  for (const char* key : {"nesterov", "scale"}) add({std::string("training.optimizer.muon.") + key, {}, needs_muon});
}

void add_precision(std::vector<Tried>& tried) {
  const auto add = [&](Tried one) { tried.push_back(std::move(one)); };
  add({"precision.fp8_products", {}, needs_fp8_products});
  add({"precision.product_format", {}, needs_fp8_products});
  add({"precision.fp8_scaling.method", {}, needs_fp8_products});
  add({"precision.gradient_scaling", {}, needs_fp8_gradients});
  add({"precision.stochastic_rounding", {}, needs_fp8_gradients});
  add({"precision.high_precision.first_layers", {"1"}, needs_fp8_products});
  add({"precision.high_precision.last_layers", {"1"}, needs_fp8_products});
  add({"precision.high_precision.parameters", {R"(["layers.0.*"])"}, needs_fp8_products});
  add({"precision.high_precision.fallback_steps", {"10"}, needs_fp8_gradients});
}

void add_layout(std::vector<Tried>& tried) {
  const auto add = [&](Tried one) { tried.push_back(std::move(one)); };
  add({"parallel.tensor", {"2"}});
  add({"parallel.sequence", {}, {{"parallel.tensor", "2"}}});
  add({"parallel.pipeline", {"2"}});
  add({"parallel.context", {"2"}});
  add({"parallel.expert", {"2"}, {{"model.moe.experts", "4"}, {"parallel.data", "4"}}});
  add({"parallel.expert_tensor", {"2"}, {{"model.moe.experts", "4"}, {"parallel.data", "4"}}});
  Needs switched = needs_expert_shards;
  switched.emplace_back("parallel.expert_slices", "2");
  add({"parallel.expert_tensor", {"auto"}, switched});
  add({"parallel.expert_slices", {"2"}, needs_expert_shards});
  add({"parallel.expert_overlap", {"auto", "2"}, needs_expert_ranks});
  add({"parallel.expert_all_to_all", {}, needs_expert_ranks});
  add({"parallel.data", {"2"}});
  add({"parallel.zero_stage", {"1", "2", "3"}, needs_replicas});
  add({"parallel.zero_shard_ranks", {"2"}, {{"parallel.data", "4"}, {"parallel.zero_stage", "1"}}});
  add({"parallel.overlap", {}, needs_replicas});
  add({"pipeline.schedule", {}, needs_pipeline});
  add({"pipeline.balance", {}, needs_pipeline});
  add({"pipeline.balance", {"[1, 3]"}, needs_pipeline});
  add({"pipeline.loops", {"2"}});
  add({"memory.recompute", {R"({"full": [0]})"}});
  add({"memory.limit", {"1e12"}});
  add({"memory.chunks", {"2"}, needs_resnet()});
  add({"memory.offload.optimizer", {"disk"}});
  add({"memory.offload.folder", {"/scratch"}, {{"memory.offload.optimizer", "disk"}}});
  add({"memory.offload.gradients", {}, {{"memory.offload.optimizer", "true"}, {"pipeline.loops", "2"}}});
  add({"memory.offload.weights", {}, {{"parallel.zero_stage", "3"}, {"memory.offload.optimizer", "true"}}});
  add({"memory.offload.resident_stages", {"1"}, {{"memory.offload.optimizer", "true"}, {"pipeline.loops", "2"}}});
  add({"kernels.attention", {"cudnn"}, {{"precision.compute", "bf16"}}});
}

void add_running(std::vector<Tried>& tried) {
  const auto add = [&](Tried one) { tried.push_back(std::move(one)); };
  add({"cluster.nodes", {"2"}, needs_all_devices});
  add({"cluster.devices_per_node", {"2"}, needs_all_devices});
  add({"launch.ranks", {"2"}, needs_all_devices});
  for (const char* key : {"link_delay_microseconds", "link_megabytes_per_second", "link_message_microseconds",
                          "node_link_speedup", "layer_delay_microseconds"})
    add({std::string("launch.") + key, {"10"}, needs_emulation});
  add({"launch.network_interfaces",
       {R"(["eth0"])"},
       {{"cluster.nodes", "2"}, {"launch.backend", "mpi"}, {"parallel.data", "auto"}}});
  add({"log.routing", {}, needs_experts});
  add({"log.fp8_statistics", {}, needs_fp8_products});
}

std::vector<Tried> all_tried() {
  std::vector<Tried> tried;
  for (const auto part : {add_model, add_training, add_precision, add_layout, add_running}) part(tried);
  return tried;
}

// Whether the entry says what this value needs; the first that does counts.
bool concerns(const Tried& one, const std::string& key, const std::string& value) {
  return one.key == key && (one.values.empty() || std::ranges::find(one.values, value) != one.values.end());
}

std::vector<SupportCase> cases_of(const SchemaKey& key, const std::vector<Tried>& tried) {
  std::vector<std::string> values = key.words;
  for (const Tried& one : tried)
    if (one.key == key.path)
      std::ranges::copy_if(one.values, std::back_inserter(values),
                           [&](const auto& value) { return std::ranges::find(values, value) == values.end(); });
  std::vector<SupportCase> cases;
  for (const std::string& value : values) {
    const auto entry = std::ranges::find_if(tried, [&](const Tried& one) { return concerns(one, key.path, value); });
    cases.push_back({key.path, value, entry == tried.end() ? Needs() : entry->needs, !key.default_follows_others});
  }
  return cases;
}

std::vector<SupportCase> make_cases() {
  const auto tried = all_tried();
  std::vector<SupportCase> cases;
  for (const SchemaKey& key : schema_keys())
    if (!is_left_out(key.path)) std::ranges::move(cases_of(key, tried), std::back_inserter(cases));
  return cases;
}

}  // namespace

const std::vector<SupportCase>& support_cases() {
  static const std::vector<SupportCase> cases = make_cases();
  return cases;
}

}  // namespace llmtrain::app
