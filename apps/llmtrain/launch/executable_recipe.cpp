// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/launch/executable_recipe.h"

#include <optional>

#include "core/base/error.h"
#include "core/graph/block_fields.h"
#include "core/graph/grown_vocabulary.h"
#include "core/recipe/model_from/model_from.h"
#include "parallel/layout/executable.h"

namespace llmtrain::app {
namespace {

// Why the rows of tokens that the model's first weights do not have would stay as they begin; none where they do not.
std::optional<std::string> untrained_tokens(const Graph& graph, const Recipe& recipe) {
  if (!recipe.training.init_from) return std::nullopt;
  ModelOrigin origin;
  try {
    origin = read_model_origin(*recipe.training.init_from);
  } catch (const Error&) {
    return std::nullopt;
  }
  try {
    require_trained_rows(graph, origin.model.vocab_size, origin.file);
  } catch (const Error& error) {
    return error.what();
  }
  return std::nullopt;
}

}  // namespace

void require_executable(const Recipe& recipe, const std::string& name) {
  std::string lines;
  for (const std::string& reason : not_executable(recipe)) {
    lines.append(lines.empty() ? "" : "\n").append(name).append(": ").append(reason);
  }
  if (!lines.empty()) throw Error(ExitCode::bad_recipe, lines);
}

void require_decoder(const Recipe& recipe, const std::string& name, const std::string& command) {
  if (is_encoder_decoder(recipe.model.architecture))
    throw Error(ExitCode::bad_recipe, name +
                                          ": /model/architecture: is an encoder-decoder's, which writes targets of " +
                                          "sources and continues no text; " + command +
                                          " needs a decoder, such as gpt2 or llama. `llmtrain sample` writes targets");
  if (is_image_classifier(recipe.model.architecture))
    throw Error(ExitCode::bad_recipe, name +
                                          ": /model/architecture: is of a model that tells classes of images and "
                                          "writes no text; " +
                                          command + " needs a decoder, such as gpt2 or llama");
  if (!is_encoder(recipe.model.architecture)) return;
  throw Error(ExitCode::bad_recipe,
              name +
                  ": /model/architecture: is an encoder's, which tells hidden tokens from both sides and continues " +
                  "no text; " + command + " needs a decoder, such as gpt2 or llama");
}

void require_writer(const Recipe& recipe, const std::string& name, const std::string& command) {
  if (!is_encoder_decoder(recipe.model.architecture)) require_decoder(recipe, name, command);
}

void require_fields(const Graph& graph, const DataRecipe& data, const std::string& name) {
  for (const std::string& reason : missing_fields(graph, sample_fields(data)))
    throw Error(ExitCode::bad_recipe, name + ": /data: its samples have no " + reason);
}

void require_trained_tokens(const Graph& graph, const Recipe& recipe, const std::string& name) {
  if (const auto reason = untrained_tokens(graph, recipe)) throw Error(ExitCode::bad_recipe, name + ": " + *reason);
}

std::vector<std::string> not_run_as_planned(const Recipe& recipe, const Graph& graph) {
  if (recipe.cluster.program != ClusterRecipe{}.program) return {};
  std::vector<std::string> reasons = not_executable(recipe);
  if (auto reason = untrained_tokens(graph, recipe)) reasons.push_back(*std::move(reason));
  return reasons;
}

void require_training_data(const Recipe& recipe, const std::string& name) {
  if (!recipe.data.train.empty()) return;
  throw Error(ExitCode::bad_recipe,
              name + ": /data/train: is missing; run needs at least one source, as in [{\"path\": \"text.txt\"}]");
}

}  // namespace llmtrain::app
