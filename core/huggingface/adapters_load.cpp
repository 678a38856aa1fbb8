// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/safetensors.h"
#include "core/huggingface/adapted_modules.h"
#include "core/huggingface/adapters.h"
#include "core/huggingface/huggingface_tensors.h"
#include "core/huggingface/joined_adapters.h"
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
  static const std::vector<Fixed> keys{
      {"peft_type", "LORA"},          {"bias", "none"},     {"trainable_token_indices", nullptr},
      {"layer_replication", nullptr}, {"lora_bias", false}, {"target_parameters", nullptr},
      {"use_qalora", false}};
  return keys;
}

// Whether the adapters of a module are joined as save_peft() joins them; else a module has one of the recipe's rank.
bool are_joined(const fs::path& file, const Json& config, const Graph& graph,
                const std::vector<AdaptedModule>& modules) {
  const Json nothing = Json::object(), ranks = joined_ranks(graph, modules), alphas = joined_alphas(graph, modules);
  const bool joined = !ranks.empty() && config.value("rank_pattern", nothing) == ranks;
  const auto require = [&](const char* key, const Json& expected) {
    if (const Json found = config.value(key, nothing); found != (joined ? expected : nothing))
      throw Error(ExitCode::bad_data, file.string() + ": " + key + " is " + quoted_text(found.dump()) +
                                          "; adapters are read where it is {}" +
                                          (ranks.empty() ? "" : " or " + expected.dump()));
  };
  require("rank_pattern", ranks);
  require("alpha_pattern", alphas);
  return joined;
}

Json read_config(const fs::path& file) {
  auto config = parse_json<Json>(read_text_file(file), file.string());
  if (!config.is_object()) throw Error(ExitCode::bad_data, file.string() + ": is no object");
  return config;
}

void check_config(const fs::path& file, const Json& config, const LoraRecipe& lora) {
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

// A tensor of a module.
at::Tensor read_tensor(const SafetensorsFile& file, const std::string& name, const std::vector<std::int64_t>& shape,
                       const AdaptedModule& module, const Graph& graph) {
  const SafetensorsEntry* entry = file.find(name);
  const std::string where = file.path().string() + ": " + quoted_text(name);
  if (entry == nullptr && name.ends_with("lm_head.weight") && graph.model.tie_embeddings)
    throw Error(ExitCode::bad_data, where +
                                        " is missing: the recipe's model ties it to the token embedding, which was "
                                        "trained alone; train it with ensure_weight_tying in PEFT");
  if (entry == nullptr)
    throw Error(ExitCode::bad_data, where + " is missing; model.lora." +
                                        (module.is_saved ? "modules_to_save must name the modules that were trained "
                                                           "beside the adapter"
                                                         : "targets must name what the adapter was made for"));
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

using ReadTensor = std::function<at::Tensor(const std::string&, const std::vector<std::int64_t>&)>;

void add_adapter(const AdaptedModule& module, const Graph& graph, bool joined, const ReadTensor& read,
                 const fs::path& path, NamedWeights& weights) {
  const LoraRecipe& lora = *graph.model.lora;
  const std::int64_t rank = joined ? lora.rank * count_adapted(module.matrices, graph) : lora.rank;
  const std::int64_t rows = count_rows(module.matrices, graph);
  ModuleAdapter adapter;
  adapter.a = read(module.tensor("lora_A.weight"), {rank, graph.parameters[module.matrices.front()].shape.back()});
  adapter.b = read(module.tensor("lora_B.weight"), {rows, rank});
  if (lora.dora) adapter.magnitude = read(module.tensor("lora_magnitude_vector"), {rows});
  if (split_adapter(adapter, module.matrices, graph, weights)) return;
  throw Error(ExitCode::bad_data, path.string() + ": " + quoted_text(module.tensor("lora_B.weight")) +
                                      " changes rows or columns that model.lora.targets leave alone; they must name "
                                      "what the adapter was made for");
}

}  // namespace

NamedWeights load_peft(const fs::path& folder, const Graph& graph) {
  if (!graph.model.lora)
    throw Error(ExitCode::bad_recipe, "/model/lora: is null, so that there are no adapters to load " + folder.string() +
                                          " into; set its rank, alpha and targets");
  const fs::path config_file = folder / "adapter_config.json";
  const Json config = read_config(config_file);
  check_config(config_file, config, *graph.model.lora);
  const auto modules = adapted_modules(graph, huggingface_type_of(graph.model));
  const bool joined = are_joined(config_file, config, graph, modules);
  const SafetensorsFile file(folder / "adapter_model.safetensors");
  std::set<std::string> unused;
  for (const SafetensorsEntry& entry : file.entries()) unused.insert(entry.name);
  NamedWeights weights;
  for (const AdaptedModule& module : modules) {
    const auto read = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
      unused.erase(name);
      return read_tensor(file, name, shape, module, graph);
    };
    for (const HuggingfaceTensor& tensor : module.tensors) {
      const at::Tensor values = read(tensor.name, tensor.shape(graph));
      require_tied(weights, graph, tensor, values, file.path());
      add_parameters(tensor, graph, values, weights);
    }
    if (!module.is_saved) add_adapter(module, graph, joined, read, file.path(), weights);
  }
  if (!unused.empty())
    throw Error(ExitCode::bad_data,
                file.path().string() + ": " + quoted_text(*unused.begin()) +
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
