// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/recipe_difference.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

constexpr std::string_view longest_sequence_key = "model.max_sequence_length";
constexpr std::string_view tokens_key = "model.vocab_size";

bool holds_sections(const Json& list) {
  return list.is_array() && !list.empty() &&
         std::all_of(list.begin(), list.end(), [](const Json& entry) { return entry.is_object(); });
}

Json member(const Json& section, const std::string& name) {
  return section.is_object() && section.contains(name) ? section[name] : Json(nullptr);
}

void collect(const std::string& key, const Json& first, const Json& second, std::vector<KeyDifference>& found) {
  if (first == second) return;
  const auto inner = [&](const std::string& name) { return key.empty() ? name : key + "." + name; };
  // Entries of lists of different lengths do not correspond to each other.
  if (holds_sections(first) && holds_sections(second) && first.size() == second.size()) {
    for (std::size_t i = 0; i < first.size(); ++i) collect(inner(std::to_string(i)), first[i], second[i], found);
    return;
  }
  // A section against null: its keys are listed against null.
  const auto is_section = [](const Json& value) { return value.is_object() || value.is_null(); };
  if (!is_section(first) || !is_section(second)) {
    found.push_back({key, first, second});
    return;
  }
  if (first.is_object())
    for (const auto& [name, value] : first.items()) collect(inner(name), value, member(second, name), found);
  if (!second.is_object()) return;
  for (const auto& [name, value] : second.items())
    if (!first.is_object() || !first.contains(name)) collect(inner(name), nullptr, value, found);
}

// Which intervals and leading layers may say differently.
bool are_in_the_same_layers(const MixtureOfExpertsRecipe& experts, const MixtureOfExpertsRecipe& others,
                            std::int64_t layers) {
  for (std::int64_t layer = 0; layer < layers; ++layer)
    if (experts.are_in(layer) != others.are_in(layer)) return false;
  return true;
}

// Whether the window of this model limits no query of sequences of such a length, and nothing else tells its layers
// apart.
bool limits_nothing(const ModelRecipe& model, std::int64_t longest) {
  const SlidingWindowRecipe& window = *model.sliding_window;
  const bool has_one_rope = model.position != Position::rope ||
                            (window.rope_theta == model.rope_theta && (window.rope_scaling || !model.rope_scaling));
  return longest <= window.tokens && has_one_rope;
}

// `model` with the keys of `other` that do not change what it computes.
ModelRecipe with_free_keys_of(ModelRecipe model, const ModelRecipe& other) {
  model.architecture = other.architecture;
  model.dropout = other.dropout;
  model.init_std = other.init_std;
  // Nothing reads the angles where positions are not rotary, nor the width of dense layers where all have experts.
  if (other.position != Position::rope) model.rope_theta = other.rope_theta;
  // Nor is there a table that would limit relative ones.
  if (other.position == Position::relative) model.max_sequence_length = other.max_sequence_length;
  if (other.moe && other.moe->every == 1 && other.moe->dense_layers == 0) model.ffn_hidden_size = other.ffn_hidden_size;
  if (!model.sliding_window && other.sliding_window && limits_nothing(other, model.max_sequence_length))
    model.sliding_window = other.sliding_window;
  // Adapters that start beside weights without any.
  if (!other.lora) model.lora.reset();
  if (model.lora) {
    model.lora->dropout = other.lora->dropout;
    model.lora->modules_to_save = other.lora->modules_to_save;
  }
  if (!model.moe || !other.moe) return model;
  if (are_in_the_same_layers(*model.moe, *other.moe, other.layers)) {
    model.moe->every = other.moe->every;
    model.moe->dense_layers = other.moe->dense_layers;
  }
  model.moe->capacity_factor = other.moe->capacity_factor;
  model.moe->priority = other.moe->priority;
  model.moe->balance_loss = other.moe->balance_loss;
  model.moe->balance_coefficient = other.moe->balance_coefficient;
  model.moe->z_coefficient = other.moe->z_coefficient;
  model.moe->jitter = other.moe->jitter;
  model.moe->gate_noise = other.moe->gate_noise;
  model.moe->routing_zipf = other.moe->routing_zipf;
  model.moe->routing_trace = other.moe->routing_trace;
  return model;
}

}  // namespace

std::vector<std::string> unnamed_classes(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back("LABEL_" + std::to_string(i));
  return names;
}

bool tells_same_classes(const ClassifierRecipe& classifier, const ClassifierRecipe& origin) {
  const std::size_t count = classifier.classes.size();
  if (classifier.of != origin.of || origin.classes.size() != count) return false;
  return classifier.classes == origin.classes || origin.classes == unnamed_classes(count);
}

std::string KeyDifference::pointer() const {
  std::string path = "/" + key;
  std::replace(path.begin(), path.end(), '.', '/');
  return path;
}

std::string KeyDifference::text() const { return key + ": " + shown_value(first) + " -> " + shown_value(second); }

std::vector<KeyDifference> recipe_differences(const Recipe& first, const Recipe& second) {
  std::vector<KeyDifference> found;
  collect("", to_json(first), to_json(second), found);
  return found;
}

std::vector<KeyDifference> model_differences(const ModelRecipe& model, const ModelRecipe& other) {
  Recipe first, second;
  first.model = with_free_keys_of(model, other);
  second.model = other;
  return recipe_differences(first, second);
}

OriginDifferences origin_differences(const ModelRecipe& model, const ModelRecipe& origin) {
  const bool are_rotary = model.position == Position::rope && origin.position == Position::rope;
  OriginDifferences found;
  const bool has_same_classes =
      model.classifier && origin.classifier && tells_same_classes(*model.classifier, *origin.classifier);
  for (KeyDifference& difference : model_differences(model, origin)) {
    const std::string_view key = difference.key;
    const bool is_free =
        key == "model.rope_theta" || key.starts_with("model.rope_scaling") || key == longest_sequence_key;
    if (key == tokens_key && model.vocab_size > origin.vocab_size) {
      found.of_tokens = std::move(difference);
      continue;
    }
    const bool is_of_classes = model.classifier && key.starts_with("model.classifier");
    if (is_of_classes && has_same_classes) continue;
    auto& those = are_rotary && is_free ? found.of_positions : is_of_classes ? found.of_classes : found.of_weights;
    those.push_back(std::move(difference));
  }
  return found;
}

std::string weights_rule(const KeyDifference& difference) {
  if (difference.key == tokens_key)
    return "must be the same or larger to start from its weights: tokens can be added, and none left out";
  const std::string rule = "the two must be the same to start from its weights";
  // Where positions are rotary, this key may differ.
  return difference.key != longest_sequence_key ? rule : rule + ", of which each learned position has some";
}

}  // namespace llmtrain
