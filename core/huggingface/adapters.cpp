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
#include "core/huggingface/huggingface_tensors.h"
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

// The module of transformers that computes with the matrix, "model.layers.0.self_attn.q_proj".
std::string module_of(const std::vector<HuggingfaceTensor>& tensors, const Graph& graph, std::size_t matrix) {
  for (const HuggingfaceTensor& tensor : tensors) {
    if (tensor.parameters.front() != matrix) continue;
    if (tensor.parameters.size() > 1) break;
    return tensor.name.substr(0, tensor.name.rfind('.'));
  }
  throw Error(
      ExitCode::bad_recipe,
      "/model/lora/targets: name " + graph.parameters[matrix].name +
          ", which transformers keeps in one matrix with others, so that this adapter cannot be exported; export "
          "the model with --to hf, which merges adapters");
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
  const std::vector<HuggingfaceTensor> places = huggingface_tensors(graph, type);
  Json modules = Json::array();
  std::vector<SafetensorsTensor> tensors;
  for (const auto& [matrix, a, b] : adapted_matrices(graph)) {
    const std::string module = module_of(places, graph, matrix);
    modules.push_back(module);
    for (const auto& [suffix, parameter] : {std::pair{".lora_A.weight", a}, std::pair{".lora_B.weight", b}}) {
      const at::Tensor& weight = weights.at(parameter->name);
      tensors.push_back({"base_model.model." + module + suffix, weight.scalar_type() == at::kFloat ? "F32" : "BF16",
                         parameter->shape, weight.data_ptr()});
    }
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
