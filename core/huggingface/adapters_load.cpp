// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/safetensors.h"
#include "core/huggingface/adapted_modules.h"
#include "core/huggingface/adapters.h"
#include "core/huggingface/finite_values.h"
#include "core/huggingface/huggingface_tensors.h"
#include "core/huggingface/row_lengths.h"
#include "core/huggingface/tensor_dtype.h"
#include "core/huggingface/tensor_values.h"
#include "core/huggingface/weight_source.h"
#include "core/json/json_file.h"
#include "core/json/json_text.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

// A key of adapter_config.json that changes what adapters compute, with the only value that is known here.
struct Fixed {
  const char* key;
  Json value;
};

const std::vector<Fixed>& fixed_keys() {
  static const std::vector<Fixed> keys{{"peft_type", "LORA"},
                                       {"bias", "none"},
                                       {"rank_pattern", Json::object()},
                                       {"alpha_pattern", Json::object()},
                                       {"trainable_token_indices", nullptr},
                                       {"layer_replication", nullptr},
                                       {"lora_bias", false},
                                       {"target_parameters", nullptr},
                                       {"use_qalora", false}};
  return keys;
}

void check_config(const fs::path& file, const LoraRecipe& lora) {
  const auto config = parse_json<Json>(read_text_file(file), file.string());
  if (!config.is_object()) throw Error(ExitCode::bad_data, file.string() + ": is no object");
  for (const auto& [key, value] : fixed_keys())
    if (const auto found = config.find(key); found != config.end() && *found != value)
      throw Error(ExitCode::bad_data, file.string() + ": " + key + " is " + quoted_text(found->dump()) +
                                          "; adapters are read where it is " + value.dump());
  // Methods of PEFT that begin by changing the weights which are adapted.
  const auto first = config.find("init_lora_weights");
  if (first != config.end() && first->is_string() && *first != "gaussian")
    throw Error(ExitCode::bad_data, file.string() + ": init_lora_weights is " + quoted_text(first->dump()) +
                                        "; adapters are read over weights that were not changed with them");
  const auto differs = [&](const char* key, double ours) {
    const auto found = config.find(key);
    return found == config.end() || !found->is_number() || found->get<double>() != ours;
  };
  const auto refuse = [&](const char* key, const char* pointer, double ours) {
    throw Error(ExitCode::bad_recipe, std::string("/model/lora/") + pointer + ": is " + Json(ours).dump() +
                                          ", but not " + key + " in " + file.string() + "; the two must be the same");
  };
  if (differs("r", static_cast<double>(lora.rank))) refuse("r", "rank", static_cast<double>(lora.rank));
  if (differs("lora_alpha", lora.alpha)) refuse("lora_alpha", "alpha", lora.alpha);
  const auto require_same = [&](const char* key, const char* pointer, bool ours) {
    // Older files lack them.
    const auto found = config.find(key);
    if ((found != config.end() && *found == true) != ours)
      throw Error(ExitCode::bad_recipe, fmt::format("/model/lora/{}: is {}, but not {} in {}; the two must be the same",
                                                    pointer, ours, key, file.string()));
  };
  require_same("use_rslora", "rank_stabilized", lora.rank_stabilized);
  require_same("use_dora", "dora", lora.dora);
}

at::Tensor copy_of(const SafetensorsFile& file, const SafetensorsEntry& entry) {
  at::Tensor tensor = at::empty(entry.shape, at::dtype(tensor_type(entry.dtype)));
  const auto bytes = file.bytes(entry);
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  // fp32 holds every fp16 value.
  return tensor.scalar_type() == at::kHalf ? tensor.to(at::kFloat) : tensor;
}

// A tensor of a module, of the shape that the model has.
at::Tensor read_tensor(const SafetensorsFile& file, const AdaptedModule& module, const HuggingfaceTensor& tensor,
                       const Graph& graph) {
  const SafetensorsEntry* entry = file.find(tensor.name);
  const std::string where = file.path().string() + ": " + quoted_text(tensor.name);
  if (entry == nullptr && tensor.name.ends_with("lm_head.weight") && graph.model.tie_embeddings)
    throw Error(ExitCode::bad_data, where +
                                        " is missing: the recipe's model ties it to the token embedding, which was "
                                        "trained alone; train it with ensure_weight_tying in PEFT");
  if (entry == nullptr)
    throw Error(ExitCode::bad_data, where + " is missing; model.lora." +
                                        (module.is_saved ? "modules_to_save must name the modules that were trained "
                                                           "beside the adapter"
                                                         : "targets must name what the adapter was made for"));
  const std::vector<std::int64_t> shape = tensor.shape(graph);
  if (entry->shape != shape)
    throw Error(ExitCode::bad_data, where + " has the shape " + Json(entry->shape).dump() +
                                        "; the recipe's model has " + Json(shape).dump());
  if (tensor_type(entry->dtype) == at::ScalarType::Undefined)
    throw Error(ExitCode::bad_data, where + " is of dtype " + entry->dtype + "; F32, BF16 or F16 is needed");
  const at::Tensor values = copy_of(file, *entry);
  require_finite(values, where);
  return values;
}

// Two tensors may be of one parameter.
void require_tied(const NamedWeights& weights, const Graph& graph, const HuggingfaceTensor& tensor,
                  const at::Tensor& values, const fs::path& path) {
  const auto known = weights.find(graph.parameters[tensor.parameters.front()].name);
  if (known == weights.end() || at::equal(known->second, values)) return;
  throw Error(ExitCode::bad_data, path.string() + ": " + quoted_text(tensor.name) +
                                      " differs from the token embedding, with which the recipe's model ties it; train "
                                      "a model whose tie_embeddings is false");
}

}  // namespace

NamedWeights load_peft(const fs::path& folder, const Graph& graph) {
  if (!graph.model.lora)
    throw Error(ExitCode::bad_recipe, "/model/lora: is null, so that there are no adapters to load " + folder.string() +
                                          " into; set its rank, alpha and targets");
  check_config(folder / "adapter_config.json", *graph.model.lora);
  const fs::path path = folder / "adapter_model.safetensors";
  const SafetensorsFile file(path);
  std::set<std::string> unused;
  for (const SafetensorsEntry& entry : file.entries()) unused.insert(entry.name);
  NamedWeights weights;
  for (const AdaptedModule& module : adapted_modules(graph, huggingface_type_of(graph.model)))
    for (const HuggingfaceTensor& tensor : module.tensors) {
      const at::Tensor values = read_tensor(file, module, tensor, graph);
      require_tied(weights, graph, tensor, values, path);
      add_parameters(tensor, graph, values, weights);
      unused.erase(tensor.name);
    }
  if (!unused.empty())
    throw Error(ExitCode::bad_data,
                path.string() + ": " + quoted_text(*unused.begin()) +
                    " belongs to no adapter of the recipe's model, and to no module that is trained beside them; "
                    "model.lora.targets or modules_to_save must name its module");
  return weights;
}

NamedWeights above_base(NamedWeights weights, const Graph& graph, const WeightSource& base) {
  for (const Parameter& matrix : graph.parameters)
    if (matrix.adapter && matrix.adapter->has_magnitude) {
      at::Tensor& magnitude = weights.at(graph.parameters[matrix.adapter->a + 2].name);
      magnitude = magnitude.to(at::kFloat) - row_lengths(base, matrix);
    }
  return weights;
}

}  // namespace llmtrain
