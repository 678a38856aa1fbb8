// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/adapted_modules.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "core/huggingface/joined_adapters.h"

namespace llmtrain {
namespace {

constexpr const char* peft_prefix = "base_model.model.";

std::string module_of(const HuggingfaceTensor& tensor) { return tensor.name.substr(0, tensor.name.rfind('.')); }

void add_saved(std::vector<AdaptedModule>& modules, HuggingfaceTensor tensor) {
  const std::string name = module_of(tensor);
  tensor.name = peft_prefix + tensor.name;
  const auto found = std::ranges::find_if(
      modules, [&](const AdaptedModule& module) { return module.is_saved && module.name == name; });
  if (found != modules.end())
    found->tensors.push_back(std::move(tensor));
  else
    modules.push_back({.name = name, .is_saved = true, .tensors = {std::move(tensor)}});
}

}  // namespace

std::string AdaptedModule::tensor(const std::string& suffix) const { return peft_prefix + name + "." + suffix; }

std::vector<AdaptedModule> adapted_modules(const Graph& graph, HuggingfaceType type) {
  const std::vector<HuggingfaceTensor> tensors = huggingface_tensors(graph, type);
  std::vector<AdaptedModule> modules;
  for (const HuggingfaceTensor& tensor : tensors)
    if (count_adapted(tensor.parameters, graph) > 0)
      modules.push_back({.name = module_of(tensor), .matrices = tensor.parameters});
  for (const HuggingfaceTensor& tensor : tensors) {
    const Parameter& parameter = graph.parameters[tensor.parameters.front()];
    if (!parameter.is_saved_module) continue;
    add_saved(modules, tensor);
    if (graph.model.tie_embeddings && parameter.name == "embedding.token.weight") {
      HuggingfaceTensor head = tensor;
      head.name = "lm_head.weight";
      add_saved(modules, std::move(head));
    }
  }
  return modules;
}

std::map<std::string, std::int64_t> joined_ranks(const Graph& graph, const std::vector<AdaptedModule>& modules) {
  std::map<std::string, std::int64_t> ranks;
  for (const AdaptedModule& module : modules)
    if (const std::int64_t count = count_adapted(module.matrices, graph); count > 1)
      ranks[module.name] = count * graph.model.lora->rank;
  return ranks;
}

std::map<std::string, double> joined_alphas(const Graph& graph, const std::vector<AdaptedModule>& modules) {
  const LoraRecipe& lora = *graph.model.lora;
  std::map<std::string, double> alphas;
  for (const auto& [name, rank] : joined_ranks(graph, modules)) {
    const double times = static_cast<double>(rank) / static_cast<double>(lora.rank);
    alphas[name] = lora.alpha * (lora.rank_stabilized ? std::sqrt(times) : times);
  }
  return alphas;
}

}  // namespace llmtrain
