// SPDX-License-Identifier: Apache-2.0
#include "core/graph/grown_vocabulary.h"

#include <spdlog/fmt/fmt.h>

#include "core/base/error.h"

namespace llmtrain {
namespace {

std::string cure_of(const ModelRecipe& model) {
  if (!model.lora) return "take it from training.freeze";
  return fmt::format("list {} in model.lora.modules_to_save, which trains them as a whole",
                     model.tie_embeddings ? "\"embed_tokens\"" : "\"embed_tokens\" and \"lm_head\"");
}

}  // namespace

std::map<std::string, std::int64_t> rows_with_fewer_tokens(const Graph& graph, std::int64_t tokens) {
  std::map<std::string, std::int64_t> rows;
  if (tokens == graph.model.vocab_size) return rows;
  ModelRecipe smaller = graph.model;
  smaller.vocab_size = tokens;
  const Graph other = Graph::build(smaller);
  for (std::size_t i = 0; i < graph.parameters.size(); ++i)
    if (const auto& before = other.parameters[i].shape; before != graph.parameters[i].shape)
      rows[graph.parameters[i].name] = before.front();
  return rows;
}

void require_trained_rows(const Graph& graph, std::int64_t tokens, const std::string& source) {
  if (tokens >= graph.model.vocab_size) return;
  const auto rows = rows_with_fewer_tokens(graph, tokens);
  for (const Parameter& parameter : graph.parameters) {
    if (!parameter.is_frozen || !rows.contains(parameter.name)) continue;
    throw Error(ExitCode::bad_recipe,
                fmt::format("/model/vocab_size: is {}, but {} in {}, and the {} new rows of {} would stay as they "
                            "begin, since it is frozen; {}, or leave vocab_size as it is",
                            graph.model.vocab_size, tokens, source, graph.model.vocab_size - tokens, parameter.name,
                            cure_of(graph.model)));
  }
}

}  // namespace llmtrain
