// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/adapters.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/mm.h>

#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/checkpoint/safetensors.h"
#include "core/huggingface/adapter_places.h"
#include "core/huggingface/huggingface_tensors.h"
#include "core/huggingface/tensor_dtype.h"
#include "core/json/json_text.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

// A matrix with its adapter.
struct Adapted {
  std::size_t matrix = 0;  // index into Graph::parameters
  const Parameter* a = nullptr;
  const Parameter* b = nullptr;
};

std::vector<Adapted> adapted_matrices(const Graph& graph) {
  std::vector<Adapted> found;
  for (std::size_t block = 0; block < graph.blocks.size(); ++block)
    for (const std::size_t index : graph.blocks[block].parameters) {
      const Parameter& parameter = graph.parameters[index];
      if (parameter.adapts) continue;
      const Parameter* a = graph.adapter(block, ParameterRole::adapter_input, parameter.role);
      if (a != nullptr)
        found.push_back({index, a, graph.adapter(block, ParameterRole::adapter_output, parameter.role)});
    }
  return found;
}

Json config_of(const Graph& graph, HuggingfaceType type, const std::string& base, Json modules) {
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", base.empty() ? Json() : Json(base)},
          {"r", graph.model.lora->rank},
          {"lora_alpha", graph.model.lora->alpha},
          {"lora_dropout", 0.0},
          {"bias", "none"},
          // GPT-2's matrices are [input, output] there.
          {"fan_in_fan_out", type == HuggingfaceType::gpt2},
          {"target_modules", std::move(modules)},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"use_dora", false},
          {"use_rslora", false}};
}

}  // namespace

NamedWeights merge_adapters(const Graph& graph, NamedWeights weights) {
  for (const auto& [matrix, a, b] : adapted_matrices(graph)) {
    at::Tensor& weight = weights.at(graph.parameters[matrix].name);
    const at::Tensor product = at::mm(weights.at(b->name).to(at::kFloat), weights.at(a->name).to(at::kFloat));
    // Not in place: it may be the memory of a model.
    weight = weight.to(at::kFloat).add(product, graph.model.lora->scale()).to(weight.scalar_type());
    weights.erase(a->name);
    weights.erase(b->name);
  }
  return weights;
}

void save_peft(const fs::path& folder, const Graph& graph, const NamedWeights& weights, const std::string& base) {
  if (!graph.model.lora)
    throw Error(ExitCode::bad_recipe, "/model/lora: is null, so there are no adapters to export; use --to hf");
  const HuggingfaceType type = huggingface_type_of(graph.model);
  Json modules = Json::array();
  std::vector<SafetensorsTensor> tensors;
  for (const AdapterPlace& place : adapter_places(graph, type)) {
    if (modules.empty() || modules.back() != place.module) modules.push_back(place.module);
    const at::Tensor& weight = weights.at(place.parameter->name);
    tensors.push_back({place.tensor, dtype_name(weight.scalar_type()), place.parameter->shape, weight.data_ptr()});
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(ExitCode::cannot_write, folder.string() + ": cannot be created: " + error.message());
  write_safetensors(folder / "adapter_model.safetensors", std::move(tensors));
  // Written last: a folder without it is no adapter, so an interrupted export is recognised as such.
  write_file_atomically(folder / "adapter_config.json",
                        config_of(graph, type, base, std::move(modules)).dump(2) + "\n");
}

}  // namespace llmtrain
