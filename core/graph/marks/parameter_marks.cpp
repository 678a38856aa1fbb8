// SPDX-License-Identifier: Apache-2.0
#include "core/graph/marks/parameter_marks.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>

#include "core/base/error.h"
#include "core/graph/marks/name_patterns.h"
#include "core/graph/marks/saved_modules.h"

namespace llmtrain {
namespace {

void freeze_matches(Graph& graph, NamePatterns patterns) {
  for (Parameter& parameter : graph.parameters)
    if (patterns.match(parameter.name)) parameter.is_frozen = true;
  patterns.require_used("/training/freeze", "parameter");
}

// Where of the parameters of one product some are frozen, all must be. `pointer`: of the key that says which are.
void require_joint(const Graph& graph, const char* pointer) {
  for (std::size_t first = 0; first < graph.parameters.size(); first = graph.last_of_product(first) + 1) {
    const Parameter *frozen = nullptr, *trained = nullptr;
    for (std::size_t index = first; index <= graph.last_of_product(first); ++index)
      (graph.parameters[index].is_frozen ? frozen : trained) = &graph.parameters[index];
    if (frozen == nullptr || trained == nullptr) continue;
    throw Error(ExitCode::bad_recipe,
                fmt::format("{}: {} is frozen and {} is trained; both must be one or the other, because "
                            "they are multiplied as one matrix",
                            pointer, frozen->name, trained->name));
  }
}

// Gradients come from the last block, and stop where nothing before needs them.
void mark_backward(Graph& graph) {
  const auto is_trained = [&](std::size_t parameter) { return !graph.parameters[parameter].is_frozen; };
  for (Block& block : graph.blocks) {
    block.has_backward = std::ranges::any_of(block.parameters, is_trained) ||
                         std::ranges::any_of(block.shared, is_trained, &Block::Shared::parameter);
    if (block.has_backward) return;
  }
}

// Embeddings, norms and the head keep their type, as in bitsandbytes.
void pack(Graph& graph) {
  const auto& lora = graph.model.lora;
  if (!lora || lora->base != LoraBase::nf4) return;
  for (Parameter& parameter : graph.parameters) parameter.is_packed = parameter.is_layer_matrix && parameter.is_frozen;
}

void match_names(Graph& graph, NamePatterns patterns) {
  for (Parameter& parameter : graph.parameters)
    if (parameter.is_layer_matrix && patterns.match(parameter.name)) parameter.is_high_precision = true;
  patterns.require_used("/precision/high_precision/parameters", "matrix of a layer");
}

// Where one of the parameters that share an input stays in high precision, all do.
void join(std::vector<Parameter>& parameters) {
  for (auto first = parameters.begin(); first != parameters.end();) {
    const auto end = std::find_if(first + 1, parameters.end(),
                                  [](const Parameter& parameter) { return parameter.joined == Joined::none; });
    if (std::any_of(first, end, [](const Parameter& parameter) { return parameter.is_high_precision; }))
      std::for_each(first, end, [](Parameter& parameter) { parameter.is_high_precision = true; });
    first = end;
  }
}

}  // namespace

void freeze(Graph& graph, const std::vector<std::string>& patterns) {
  if (std::ranges::any_of(graph.parameters, &Parameter::is_adapter)) {
    mark_saved_modules(graph);
    for (Parameter& parameter : graph.parameters)
      parameter.is_frozen = !parameter.is_adapter && !parameter.is_saved_module;
    require_joint(graph, "/model/lora/modules_to_save");
  }
  freeze_matches(graph, NamePatterns(patterns));
  require_joint(graph, "/training/freeze");
  if (std::ranges::all_of(graph.parameters, &Parameter::is_frozen))
    throw Error(ExitCode::bad_recipe, "/training/freeze: freezes all parameters; must leave some to train");
  mark_backward(graph);
  pack(graph);
}

void keep_precision(Graph& graph, const HighPrecisionRecipe& high_precision) {
  match_names(graph, NamePatterns(high_precision.parameters));
  const std::int64_t units = graph.units();
  std::int64_t unit = 0;  // the index of the next one
  for (const Block& block : graph.blocks) {
    if (!block.is_unit) continue;
    const bool is_end = unit < high_precision.first_layers || unit >= units - high_precision.last_layers;
    ++unit;
    for (const std::size_t index : block.parameters) {
      Parameter& parameter = graph.parameters[index];
      if (is_end && parameter.is_layer_matrix) parameter.is_high_precision = true;
    }
  }
  join(graph.parameters);
}

}  // namespace llmtrain
