// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/huggingface_rope.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

namespace llmtrain {
namespace {

using JsonValue = nlohmann::json;

// YaRN's factor of attention: given, or by the rules of transformers' _compute_yarn_parameters.
double read_attention_factor(ConfigReader& reader, const std::string& pointer, double factor) {
  const auto magnitude = [factor](double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; };
  const double scale = reader.number(pointer + "mscale", 0), of_all = reader.number(pointer + "mscale_all_dim", 0);
  const double otherwise = scale != 0 && of_all != 0 ? magnitude(scale) / magnitude(of_all) : magnitude(1);
  return reader.number(pointer + "attention_factor", otherwise);
}

// A number without which transformers does not load the scaling.
double required_number(ConfigReader& reader, const std::string& key, double otherwise) {
  if (reader.get(key) == nullptr) reader.problem(key, "is missing; this type of scaling needs it");
  return reader.number(key, otherwise);
}

// Zero counts as absent there.
double number_or(ConfigReader& reader, const std::string& key, double otherwise) {
  const double given = reader.number(key, otherwise);
  return given == 0 ? otherwise : given;
}

void read_yarn(ConfigReader& reader, const std::string& pointer, std::int64_t longest, RopeScalingRecipe& scaling) {
  scaling.factor = static_cast<double>(longest) / static_cast<double>(scaling.original_max_sequence_length);
  // null means this ratio, and nothing an error.
  scaling.factor = reader.holds(pointer + "factor") ? reader.number(pointer + "factor", scaling.factor)
                                                    : required_number(reader, pointer + "factor", scaling.factor);
  scaling.beta_fast = number_or(reader, pointer + "beta_fast", scaling.beta_fast);
  scaling.beta_slow = number_or(reader, pointer + "beta_slow", scaling.beta_slow);
  // null is not the default, true, but as good as false.
  scaling.truncate = reader.boolean(pointer + "truncate", !reader.holds(pointer + "truncate"));
  scaling.attention_factor = read_attention_factor(reader, pointer, scaling.factor);
}

std::int64_t read_original_length(ConfigReader& reader, const std::string& pointer, std::int64_t longest) {
  const std::string key = "original_max_position_embeddings";
  return reader.size(reader.get(key) != nullptr ? key : pointer + key, longest);
}

// The scaling at `pointer`, which ends with a slash; none where the type is "default".
std::optional<RopeScalingRecipe> read_scaling(ConfigReader& reader, const std::string& pointer, const JsonValue& type,
                                              std::int64_t longest) {
  if (type == "default") return std::nullopt;
  constexpr std::array<std::string_view, 3> types = {"linear", "llama3", "yarn"};
  const auto found = std::ranges::find_if(types, [&](std::string_view each) { return type == each; });
  RopeScalingRecipe scaling;
  scaling.original_max_sequence_length = longest;
  if (found == types.end()) {
    reader.problem(pointer + "rope_type",
                   "is " + ConfigReader::shown(type) + "; only linear, llama3 and yarn scaling of RoPE are supported");
    return scaling;
  }
  scaling.type = static_cast<RopeScalingType>(found - types.begin());
  switch (scaling.type) {
    case RopeScalingType::linear:
      scaling.factor = required_number(reader, pointer + "factor", scaling.factor);
      break;
    case RopeScalingType::llama3:
      scaling.original_max_sequence_length = read_original_length(reader, pointer, longest);
      scaling.factor = required_number(reader, pointer + "factor", scaling.factor);
      scaling.low_frequency_factor = required_number(reader, pointer + "low_freq_factor", scaling.low_frequency_factor);
      scaling.high_frequency_factor =
          required_number(reader, pointer + "high_freq_factor", scaling.high_frequency_factor);
      break;
    case RopeScalingType::yarn:
      scaling.original_max_sequence_length = read_original_length(reader, pointer, longest);
      read_yarn(reader, pointer, longest, scaling);
      break;
  }
  return scaling;
}

void require_whole_heads(ConfigReader& reader, const std::string& key) {
  if (reader.number(key, 1) != 1) reader.problem(key, "is not 1; only the rotation of whole heads is supported");
}

// The key of the object that says more, "rope_scaling" or "rope_parameters".
std::string rope_key(ConfigReader& reader) {
  const JsonValue* scaling = reader.get("rope_scaling");
  return scaling != nullptr && !scaling->empty() ? "rope_scaling" : "rope_parameters";
}

void read_rotation(ConfigReader& reader, ModelRecipe& model, double theta) {
  model.rope_theta = reader.number("rope_theta", theta);
  const std::string key = rope_key(reader);
  const JsonValue* rope = reader.get(key);
  if (rope == nullptr) return;
  const std::string pointer = key + "/";
  if (!rope->is_object()) {
    reader.problem(key, "is " + ConfigReader::shown(*rope) + "; an object is needed");
    return;
  }
  const JsonValue type = rope->value("rope_type", rope->value("type", JsonValue("default")));
  model.rope_scaling = read_scaling(reader, pointer, type, model.max_sequence_length);
  for (const auto& item : rope->items())
    if (item.value().is_object())
      reader.problem(pointer + item.key(), "sets RoPE for some layers only; RoPE per layer is not supported");
  model.rope_theta = reader.number(pointer + "rope_theta", model.rope_theta);
}

}  // namespace

void read_rope(ConfigReader& reader, ModelRecipe& model, double theta) {
  for (const std::string& key : {std::string("partial_rotary_factor"), rope_key(reader) + "/partial_rotary_factor"})
    require_whole_heads(reader, key);
  read_rotation(reader, model, theta);
}

void read_partial_rope(ConfigReader& reader, ModelRecipe& model, double theta, double share) {
  share = reader.number("partial_rotary_factor", share);
  share = reader.number(rope_key(reader) + "/partial_rotary_factor", share);
  const auto rotated = static_cast<std::int64_t>(share * static_cast<double>(model.head_dim));
  if (share > 1 || rotated < 2 || rotated % 2 != 0)
    reader.problem("partial_rotary_factor", "is " + JsonValue(share).dump() + ", which rotates no pairs of a head");
  else if (share < 1)
    model.rotary_dim = rotated;
  read_rotation(reader, model, theta);
}

double read_rope_of_global_layers(ConfigReader& reader, ModelRecipe& model) {
  constexpr double global_theta = 1e6, local_theta = 1e4;
  const std::string global = "rope_parameters/full_attention", local = "rope_parameters/sliding_attention";
  if (reader.get(global) == nullptr && reader.get(local) == nullptr) {
    read_rope(reader, model, global_theta);
    return reader.number("rope_local_base_freq", local_theta);
  }
  model.rope_theta = reader.number(global + "/rope_theta", global_theta);
  const std::string type = reader.text(global + "/rope_type", "default");
  model.rope_scaling = read_scaling(reader, global + "/", type, model.max_sequence_length);
  if (reader.text(local + "/rope_type", "default") != "default")
    reader.problem(local + "/rope_type", "is not default; local layers have no scaling");
  return reader.number(local + "/rope_theta", local_theta);
}

}  // namespace llmtrain
