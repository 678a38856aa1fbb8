// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/huggingface_encoder.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/json/json_file.h"
#include "core/recipe/recipe_difference.h"

namespace llmtrain {
namespace {

Activation read_activation(ConfigReader& reader) {
  const std::string name = reader.text("hidden_act", "gelu");
  if (name == "gelu") return Activation::gelu;
  if (name != "gelu_new" && name != "gelu_fast" && name != "gelu_pytorch_tanh")
    reader.problem("hidden_act", "is " + quoted_text(name) + "; gelu or gelu_new is needed");
  return Activation::gelu_tanh;
}

std::int64_t read_positions(ConfigReader& reader, HuggingfaceType type) {
  const std::int64_t before = rows_before_positions(type), rows = reader.size("max_position_embeddings", 512);
  if (rows <= before)
    reader.problem("max_position_embeddings",
                   "is " + std::to_string(rows) + ", of which the first " + std::to_string(before) + " are never read");
  return std::max<std::int64_t>(1, rows - before);
}

// Tables of types have as many rows as the published models of their family.
void require_types(ConfigReader& reader, HuggingfaceType type) {
  const std::int64_t expected = type == HuggingfaceType::bert ? 2 : 1, types = reader.size("type_vocab_size", 2);
  if (types != expected)
    reader.problem("type_vocab_size", "is " + std::to_string(types) + "; " + std::to_string(expected) + " is needed");
}

void require_padding(ConfigReader& reader) {
  const nlohmann::json* padding = reader.get("pad_token_id");
  if (padding != nullptr && *padding != roberta_padding)
    reader.problem("pad_token_id", "is " + ConfigReader::shown(*padding) + "; positions are read that begin behind " +
                                       std::to_string(roberta_padding));
}

// What the class of transformers that the weights are of tells classes of, if it does.
std::optional<ClassifiedPart> read_classified_part(ConfigReader& reader) {
  const nlohmann::json* const classes = reader.get("architectures");
  if (classes == nullptr || !classes->is_array() || classes->empty() || !classes->front().is_string()) return {};
  const std::string name = classes->front().get<std::string>();
  if (name.ends_with("ForSequenceClassification") || name.ends_with("ForImageClassification"))
    return ClassifiedPart::sequence;
  if (name.ends_with("ForTokenClassification")) return ClassifiedPart::token;
  if (name.ends_with("ForQuestionAnswering")) return ClassifiedPart::span;
  return {};
}

// By number, from 0. Without names there are as many as transformers has by default.
std::vector<std::string> read_class_names(ConfigReader& reader) {
  const nlohmann::json* const names = reader.get("id2label");
  if (names == nullptr) return unnamed_classes(static_cast<std::size_t>(reader.size("num_labels", 2)));
  std::vector<std::string> classes;
  for (std::size_t i = 0; names->is_object() && i < names->size(); ++i) {
    const auto name = names->find(std::to_string(i));
    if (name == names->end() || !name->is_string()) break;
    classes.push_back(name->get<std::string>());
  }
  if (!names->is_object() || classes.size() != names->size() || classes.empty())
    reader.problem("id2label", "has no name for each of the numbers from 0 on");
  return classes;
}

std::optional<ClassifierRecipe> read_classifier(ConfigReader& reader) {
  const auto part = read_classified_part(reader);
  if (!part) return {};
  const std::string problem = reader.text("problem_type", "single_label_classification");
  if (problem != "single_label_classification")
    reader.problem("problem_type", "is " + quoted_text(problem) + "; single_label_classification is needed");
  const std::vector<std::string> names = read_class_names(reader);
  if (part != ClassifiedPart::span) return ClassifierRecipe{*part, names};
  if (names.size() != span_classes().size())
    reader.problem("id2label", "names " + std::to_string(names.size()) + " labels; a start and an end are needed");
  return ClassifierRecipe{*part, span_classes()};
}

}  // namespace

void read_encoder_layers(ConfigReader& reader, ModelRecipe& model) {
  model.layers = reader.size("num_hidden_layers");
  model.hidden_size = reader.size("hidden_size");
  model.heads = model.kv_heads = reader.size("num_attention_heads");
  if (model.hidden_size % model.heads != 0)
    reader.problem("num_attention_heads", "is " + std::to_string(model.heads) + ", which does not divide the width " +
                                              std::to_string(model.hidden_size));
  model.head_dim = model.hidden_size / model.heads;
  model.ffn_hidden_size = reader.size("intermediate_size");
  model.activation = read_activation(reader);
  model.norm_eps = reader.number("layer_norm_eps", 1e-12);
  model.init_std = reader.number("initializer_range", 0.02);
  model.classifier = read_classifier(reader);
}

ModelRecipe read_encoder(ConfigReader& reader, HuggingfaceType type) {
  ModelRecipe model;
  model.architecture = type == HuggingfaceType::bert ? Architecture::bert : Architecture::roberta;
  read_encoder_layers(reader, model);
  model.vocab_size = reader.size("vocab_size");
  model.max_sequence_length = read_positions(reader, type);
  model.tie_embeddings = reader.boolean("tie_word_embeddings", true);
  require_types(reader, type);
  if (type != HuggingfaceType::bert) require_padding(reader);
  if (const std::string kind = reader.text("position_embedding_type", "absolute"); kind != "absolute")
    reader.problem("position_embedding_type", "is " + quoted_text(kind) + "; absolute is needed");
  reader.require("is_decoder", false, false);
  reader.require("add_cross_attention", false, false);
  return model;
}

}  // namespace llmtrain
