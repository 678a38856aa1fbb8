// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/adapter_places.h"

#include <cstddef>

#include "core/base/error.h"
#include "core/huggingface/huggingface_tensors.h"

namespace llmtrain {
namespace {

std::string module_of(const std::vector<HuggingfaceTensor>& tensors, const Graph& graph, std::size_t matrix) {
  for (const HuggingfaceTensor& tensor : tensors) {
    if (tensor.parameters.front() != matrix) continue;
    if (tensor.parameters.size() > 1) break;
    return tensor.name.substr(0, tensor.name.rfind('.'));
  }
  throw Error(ExitCode::bad_recipe,
              "/model/lora/targets: name " + graph.parameters[matrix].name +
                  ", which transformers keeps in one matrix with others, so that PEFT has no such "
                  "adapter; export the model with --to hf, which merges adapters");
}

}  // namespace

std::vector<AdapterPlace> adapter_places(const Graph& graph, HuggingfaceType type) {
  const std::vector<HuggingfaceTensor> tensors = huggingface_tensors(graph, type);
  std::vector<AdapterPlace> places;
  for (std::size_t index = 0; index < graph.parameters.size(); ++index) {
    const auto& adapter = graph.parameters[index].adapter;
    if (!adapter) continue;
    const std::string module = module_of(tensors, graph, index), path = "base_model.model." + module;
    places.push_back({&graph.parameters[adapter->a], module, path + ".lora_A.weight"});
    places.push_back({&graph.parameters[adapter->a + 1], module, path + ".lora_B.weight"});
  }
  return places;
}

}  // namespace llmtrain
