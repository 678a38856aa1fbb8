// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/published/row_recipes.h"

#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace llmtrain::published {
namespace {

using nlohmann::json;

// Fields of a line; a quoted field may contain commas, and quotes that are doubled.
std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    const char character = line[at];
    if (character == '"' && quoted && at + 1 < line.size() && line[at + 1] == '"') {
      fields.back() += line[++at];
    } else if (character == '"') {
      quoted = !quoted;
    } else if (character == ',' && !quoted) {
      fields.emplace_back();
    } else if (character != '\r') {
      fields.back() += character;
    }
  }
  return fields;
}

std::int64_t whole(const Columns& columns, const std::string& name) { return std::stoll(columns.at(name)); }
bool truth(const Columns& columns, const std::string& name) { return columns.at(name) == "true"; }
bool starts_with(const Columns& columns, const std::string& name, const std::string& start) {
  return columns.at(name).starts_with(start);
}

bool is_zero_bubble(const Columns& columns) { return starts_with(columns, "source", "Zero Bubble"); }

// The Zero Bubble paper prints neither vocabulary nor dropout. Its script takes a SentencePiece tokenizer and
// Megatron's default dropout (sail-sg/zero-bubble-pipeline-parallelism, examples/pretrain_zero_bubble.sh). With the
// 51,200 of the table the head would take 1.7 layers' products in the smaller model, while the printed bubbles are
// those of even stages: 32,000, which makes it one layer, is assumed.
std::int64_t vocabulary_of(const Columns& columns) { return is_zero_bubble(columns) ? 32000 : whole(columns, "vocab"); }
double dropout_of(const Columns& columns) { return is_zero_bubble(columns) ? 0.1 : std::stod(columns.at("dropout")); }

json experts_of(const Columns& columns) {
  return {{"experts", whole(columns, "experts")},
          {"top_k", whole(columns, "top_k")},
          {"ffn_hidden_size", whole(columns, "expert_ffn")},
          {"shared_experts", whole(columns, "shared_experts")},
          // The published runs drop no tokens.
          {"capacity_factor", 0}};
}

json model_of(const Columns& columns) {
  json model = {{"architecture", columns.at("architecture")},
                {"layers", whole(columns, "layers")},
                {"hidden_size", whole(columns, "hidden")},
                {"heads", whole(columns, "heads")},
                {"kv_heads", whole(columns, "kv_heads")},
                {"ffn_hidden_size", whole(columns, "ffn")},
                {"vocab_size", vocabulary_of(columns)},
                {"max_sequence_length", whole(columns, "sequence")},
                {"dropout", dropout_of(columns)}};
  if (columns.at("note").find("no biases") != std::string::npos) model["bias"] = model["qkv_bias"] = false;
  if (!text_of(columns, "head_dim").empty()) model["head_dim"] = whole(columns, "head_dim");
  if (!text_of(columns, "experts").empty()) model["moe"] = experts_of(columns);
  if (!text_of(columns, "model_set").empty()) model.update(json::parse(columns.at("model_set")));
  return model;
}

// If the number of loops is not stated, one layer per stage is assumed, as in NVIDIA's own configurations.
std::int64_t loops_of(const Columns& columns) {
  const std::int64_t layers = whole(columns, "layers"), pipeline = whole(columns, "pipeline");
  if (starts_with(columns, "loops", "one layer")) return (layers + 2) / pipeline;
  const bool unknown = columns.at("note").find("number of loops not printed") != std::string::npos;
  return unknown && pipeline > 1 ? layers / pipeline : whole(columns, "loops");
}

json balance_of(const Columns& columns) {
  const std::string stated = text_of(columns, "balance");
  if (stated.starts_with("[")) return json::parse(stated);
  if (!stated.empty()) return stated;
  return starts_with(columns, "loops", "one layer") || is_zero_bubble(columns) ? "blocks" : "layers";
}

json parallel_of(const Columns& columns) {
  json parallel = {{"tensor", whole(columns, "tensor")},
                   {"sequence", truth(columns, "sequence_parallel")},
                   {"context", whole(columns, "context")},
                   {"pipeline", whole(columns, "pipeline")},
                   {"data", whole(columns, "data")},
                   {"zero_stage", whole(columns, "zero")},
                   // Transfers overlap with the passes where bubbles are simulated.
                   {"overlap", truth(columns, "overlap") || columns.at("metric") == "bubble_fraction"}};
  if (!text_of(columns, "experts").empty()) parallel["expert"] = whole(columns, "expert");
  if (!text_of(columns, "expert_tensor").empty()) parallel["expert_tensor"] = whole(columns, "expert_tensor");
  if (!text_of(columns, "zero_shard").empty()) parallel["zero_shard_ranks"] = whole(columns, "zero_shard");
  return parallel;
}

json recipe_of(const Columns& columns, const std::string& recompute) {
  const std::int64_t per_node = whole(columns, "devices_per_node");
  json recipe = {
      {"model", model_of(columns)},
      {"batch", {{"global", whole(columns, "global_batch")}, {"micro", whole(columns, "micro_batch")}}},
      {"training", {{"steps", 1}}},
      {"precision",
       {{"compute", columns.at("compute")},
        {"gradients", columns.at("gradients")},
        {"fp8_level", columns.at("fp8_level")}}},
      {"parallel", parallel_of(columns)},
      {"pipeline",
       {{"schedule", columns.at("schedule")}, {"loops", loops_of(columns)}, {"balance", balance_of(columns)}}},
      {"memory", {{"recompute", recompute}}},
      {"kernels", {{"attention", truth(columns, "flash_attention") ? "flash" : "math"}}},
      {"cluster",
       {{"profile", columns.at("hardware")},
        {"program", columns.at("program")},
        {"devices_per_node", per_node},
        {"nodes", (whole(columns, "devices") + per_node - 1) / per_node}}}};
  if (!text_of(columns, "recipe_set").empty()) recipe.merge_patch(json::parse(columns.at("recipe_set")));
  return recipe;
}

}  // namespace

std::vector<Columns> read_columns(const std::filesystem::path& csv) {
  std::ifstream file(csv);
  std::string line;
  if (!std::getline(file, line)) throw Error(ExitCode::missing_input, csv.string() + ": cannot be read, or is empty");
  const std::vector<std::string> names = split(line);
  std::vector<Columns> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = split(line);
    if (fields.size() != names.size())
      throw Error(ExitCode::bad_data,
                  fmt::format("{}: line {} has {} columns; must have {}, as the first line names them", csv.string(),
                              rows.size() + 2, fields.size(), names.size()));
    Columns columns;
    for (std::size_t index = 0; index < names.size(); ++index) columns[names[index]] = fields[index];
    rows.push_back(columns);
  }
  return rows;
}

std::string text_of(const Columns& columns, const std::string& name) {
  const auto found = columns.find(name);
  return found == columns.end() ? "" : found->second;
}

std::vector<std::string> recipes_of(const Columns& columns) {
  const std::string recompute = columns.at("recompute");
  if (recompute != "half") return {recipe_of(columns, recompute).dump()};
  return {recipe_of(columns, "none").dump(), recipe_of(columns, "full").dump()};
}

}  // namespace llmtrain::published
