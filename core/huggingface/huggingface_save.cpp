// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/cat.h>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/checkpoint/json_file.h"
#include "core/checkpoint/safetensors.h"
#include "core/huggingface/huggingface.h"
#include "core/huggingface/huggingface_config.h"
#include "core/huggingface/huggingface_tensors.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw Error(ExitCode::bad_data,
              "the weights of " + quoted_text(name) + " " + what + "; they do not belong to this model");
}

const at::Tensor& weight_of(const NamedWeights& weights, const Parameter& parameter) {
  const auto found = weights.find(parameter.name);
  if (found == weights.end()) refuse(parameter.name, "are missing");
  if (found->second.sizes() != at::IntArrayRef(parameter.shape)) refuse(parameter.name, "have another shape");
  return found->second;
}

// One type for all, fp32 or bf16.
at::ScalarType scalar_type_of(const Graph& graph, const NamedWeights& weights) {
  const at::ScalarType type = weight_of(weights, graph.parameters.front()).scalar_type();
  for (const Parameter& parameter : graph.parameters) {
    const at::ScalarType other = weight_of(weights, parameter).scalar_type();
    if (other != type || (type != at::kFloat && type != at::kBFloat16))
      refuse(parameter.name, "have another type than the first, or are neither fp32 nor bf16");
  }
  // Equally many names, and every parameter has one: there are no others.
  if (weights.size() == graph.parameters.size()) return type;
  std::map<std::string, int> known;
  for (const Parameter& parameter : graph.parameters) known[parameter.name] = 1;
  for (const auto& [name, tensor] : weights)
    if (!known.contains(name)) refuse(name, "belong to no parameter of the model");
  return type;
}

at::Tensor assemble(const HuggingfaceTensor& plan, const Graph& graph, const NamedWeights& weights) {
  std::vector<at::Tensor> parts;
  for (const std::size_t index : plan.parameters) parts.push_back(weight_of(weights, graph.parameters[index]));
  const at::Tensor whole = parts.size() == 1 ? parts.front() : at::cat(parts, 0);
  return (plan.transposed ? whole.t() : whole).contiguous();
}

void write_weights(const fs::path& file, const Graph& graph, const NamedWeights& weights, HuggingfaceType type,
                   const std::string& dtype) {
  // Joined or transposed tensors must live until the file is written.
  std::vector<at::Tensor> owners;
  std::vector<SafetensorsTensor> tensors;
  for (const HuggingfaceTensor& plan : huggingface_tensors(graph, type)) {
    owners.push_back(assemble(plan, graph, weights));
    tensors.push_back({plan.name, dtype, plan.shape(graph), owners.back().data_ptr()});
  }
  write_safetensors(file, std::move(tensors));
}

nlohmann::ordered_json generation_config_of(const nlohmann::ordered_json& config) {
  nlohmann::ordered_json generation;
  generation["_from_model_config"] = true;
  for (const std::string key : {"bos_token_id", "eos_token_id"})
    if (!config[key].is_null()) generation[key] = config[key];
  return generation;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Error(ExitCode::cannot_write, folder.string() + ": cannot be created: " + error.message());
}

}  // namespace

void save_huggingface(const fs::path& folder, const Graph& graph, const NamedWeights& weights) {
  const HuggingfaceType type = huggingface_type_of(graph.model);
  const bool is_fp32 = scalar_type_of(graph, weights) == at::kFloat;
  const auto config = huggingface_config_of(graph.model, type, is_fp32 ? "float32" : "bfloat16");
  make_folder(folder);
  write_weights(folder / "model.safetensors", graph, weights, type, is_fp32 ? "F32" : "BF16");
  write_file_atomically(folder / "generation_config.json", generation_config_of(config).dump(2) + "\n");
  // Written last: a folder without it is not a model, so an interrupted export is recognised as such.
  write_file_atomically(folder / "config.json", config.dump(2) + "\n");
}

}  // namespace llmtrain
