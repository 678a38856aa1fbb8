// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/adapters.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/mm.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/checkpoint/safetensors.h"
#include "core/huggingface/adapted_modules.h"
#include "core/huggingface/huggingface_tensors.h"
#include "core/huggingface/joined_adapters.h"
#include "core/huggingface/tensor_dtype.h"
#include "core/huggingface/tensor_values.h"
#include "core/json/json_text.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

Json config_of(const Graph& graph, HuggingfaceType type, const std::string& base,
               const std::vector<AdaptedModule>& modules) {
  Json targets = Json::array(), saved = Json::array();
  for (const AdaptedModule& module : modules) (module.is_saved ? saved : targets).push_back(module.name);
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", base.empty() ? Json() : Json(base)},
          {"r", graph.model.lora->rank},
          {"lora_alpha", graph.model.lora->alpha},
          {"lora_dropout", graph.model.lora->dropout},
          {"bias", "none"},
          // GPT-2's matrices are [input, output] there.
          {"fan_in_fan_out", type == HuggingfaceType::gpt2},
          {"target_modules", std::move(targets)},
          {"rank_pattern", joined_ranks(graph, modules)},
          {"alpha_pattern", joined_alphas(graph, modules)},
          // The two ends of a tied model are both saved, and stay one matrix where PEFT trains on.
          {"ensure_weight_tying", graph.model.tie_embeddings && !saved.empty()},
          {"modules_to_save", saved.empty() ? Json() : std::move(saved)},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"use_dora", graph.model.lora->dora},
          {"use_rslora", graph.model.lora->rank_stabilized}};
}

}  // namespace

MergedWeights::MergedWeights(const Graph& graph, const WeightSource& weights) : weights_(weights) {
  if (!graph.model.lora) return;
  for (const Parameter& matrix : graph.parameters) {
    if (!matrix.adapter) continue;
    const Parameter* const a = &graph.parameters[matrix.adapter->a];
    adapters_[matrix.name] = {a, a + 1, matrix.adapter->has_magnitude ? a + 2 : nullptr, matrix.adapter->scale};
  }
}

bool MergedWeights::holds(const Parameter& parameter) const { return weights_.holds(parameter); }

at::ScalarType MergedWeights::type(const Parameter& parameter) const {
  return adapters_.contains(parameter.name) ? at::kFloat : weights_.type(parameter);
}

at::Tensor MergedWeights::read(const Parameter& parameter, const SliceBox& box) const {
  const auto found = adapters_.find(parameter.name);
  if (found == adapters_.end()) return weights_.read(parameter, box);
  const auto& [a, b, magnitude, scale] = found->second;
  // Rows of the matrix are B's, its columns A's. A row's length is of all of its columns.
  const std::int64_t row = box.offset[0], rows = box.shape[0], column = box.offset[1], columns = box.shape[1];
  const SliceBox of_matrix = magnitude == nullptr ? box : SliceBox{{row, 0}, {rows, parameter.shape[1]}};
  const SliceBox of_a{{0, of_matrix.offset[1]}, {a->shape[0], of_matrix.shape[1]}};
  const SliceBox of_b{{row, 0}, {rows, b->shape[1]}};
  const at::Tensor weight = weights_.read(parameter, of_matrix).to(at::kFloat);
  const at::Tensor product = at::mm(weights_.read(*b, of_b).to(at::kFloat), weights_.read(*a, of_a).to(at::kFloat));
  const at::Tensor adapted = at::add(weight, product, scale);
  if (magnitude == nullptr) return adapted;
  const at::Tensor change = weights_.read(*magnitude, {{row}, {rows}}).to(at::kFloat);
  const at::Tensor factors = (row_lengths(weight) + change) / row_lengths(adapted);
  return (adapted * factors.unsqueeze(1)).narrow(1, column, columns).contiguous();
}

void save_peft(const fs::path& folder, const Graph& graph, const WeightSource& weights, const std::string& base) {
  if (!graph.model.lora)
    throw Error(ExitCode::bad_recipe, "/model/lora: is null, so there are no adapters to export; use --to hf");
  const HuggingfaceType type = huggingface_type_of(graph.model);
  const std::vector<AdaptedModule> modules = adapted_modules(graph, type);
  // They live until the file is written.
  std::vector<at::Tensor> owners;
  std::vector<SafetensorsTensor> tensors;
  const auto add = [&](const std::string& name, at::Tensor values) {
    const at::Tensor& owner = owners.emplace_back(std::move(values));
    tensors.push_back({name, dtype_name(owner.scalar_type()), owner.sizes().vec(), owner.data_ptr()});
  };
  for (const AdaptedModule& module : modules) {
    for (const HuggingfaceTensor& tensor : module.tensors) add(tensor.name, values_of(tensor, graph, weights));
    if (module.is_saved) continue;
    ModuleAdapter adapter = joined_adapter(module.matrices, graph, weights);
    add(module.tensor("lora_A.weight"), std::move(adapter.a));
    add(module.tensor("lora_B.weight"), std::move(adapter.b));
    if (adapter.magnitude.defined()) add(module.tensor("lora_magnitude_vector"), std::move(adapter.magnitude));
  }
  create_folder(folder);
  write_safetensors(folder / "adapter_model.safetensors", std::move(tensors));
  // Written last: a folder without it is no adapter, so an interrupted export is recognised as such.
  write_file_atomically(folder / "adapter_config.json", config_of(graph, type, base, modules).dump(2) + "\n");
}

}  // namespace llmtrain
