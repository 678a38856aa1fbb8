// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/adapted_modules.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/base/error.h"

namespace llmtrain {
namespace {

constexpr const char* peft_prefix = "base_model.model.";

std::string module_of(const HuggingfaceTensor& tensor) { return tensor.name.substr(0, tensor.name.rfind('.')); }

std::string adapted_module(const std::vector<HuggingfaceTensor>& tensors, const Graph& graph, std::size_t matrix) {
  for (const HuggingfaceTensor& tensor : tensors) {
    if (tensor.parameters.front() != matrix) continue;
    if (tensor.parameters.size() > 1) break;
    return module_of(tensor);
  }
  throw Error(ExitCode::bad_recipe,
              "/model/lora/targets: name " + graph.parameters[matrix].name +
                  ", which transformers keeps in one matrix with others, so that PEFT has no such "
                  "adapter; export the model with --to hf, which merges adapters");
}

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

std::vector<AdaptedModule> adapted_modules(const Graph& graph, HuggingfaceType type) {
  const std::vector<HuggingfaceTensor> tensors = huggingface_tensors(graph, type);
  std::vector<AdaptedModule> modules;
  for (std::size_t index = 0; index < graph.parameters.size(); ++index) {
    const auto& adapter = graph.parameters[index].adapter;
    if (!adapter) continue;
    const std::string module = adapted_module(tensors, graph, index), path = peft_prefix + module;
    AdaptedModule& added = modules.emplace_back(AdaptedModule{.name = module});
    added.tensors = {{path + ".lora_A.weight", {adapter->a}}, {path + ".lora_B.weight", {adapter->a + 1}}};
    if (!adapter->has_magnitude) continue;
    added.tensors.push_back({path + ".lora_magnitude_vector", {adapter->a + 2}});
    added.measured = index;
  }
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

}  // namespace llmtrain
