// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/safetensors.h"
#include "core/huggingface/huggingface.h"
#include "core/huggingface/huggingface_tensors.h"
#include "core/huggingface/tensor_dtype.h"
#include "core/json/json_file.h"
#include "core/recipe/model_from/huggingface_config.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

struct StoredTensor {
  std::shared_ptr<const SafetensorsFile> file;  // mapped as long as one of its tensors is in use
  const SafetensorsEntry* entry = nullptr;

  std::span<const std::byte> bytes() const { return file->bytes(*entry); }
};

using TensorMap = std::map<std::string, StoredTensor>;

[[noreturn]] void refuse(const fs::path& file, const std::string& what) {
  throw Error(ExitCode::bad_data, file.string() + ": " + what + "; download or save the model again");
}

bool is_there(const fs::path& file) {
  std::error_code error;
  return fs::exists(file, error);
}

// Plain names only, so that an untrusted index cannot make us read other files.
bool is_plain_name(const std::string& name) {
  return name.ends_with(".safetensors") && !name.starts_with('.') &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

std::map<std::string, std::string> read_weight_map(const fs::path& index) {
  const auto json = parse_json<nlohmann::json>(read_text_file(index), index.string());
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object())
    refuse(index, "has no object \"weight_map\"");
  std::map<std::string, std::string> files;
  for (const auto& item : json["weight_map"].items()) {
    const std::string file = item.value().is_string() ? item.value().get<std::string>() : "";
    if (!is_plain_name(file))
      refuse(index, "places " + quoted_text(item.key()) + " in " + quoted_text(item.value().dump()) +
                        ", which is not the plain name of a .safetensors file in its folder");
    files.emplace(item.key(), file);
  }
  return files;
}

void add_file(TensorMap& tensors, const fs::path& file) {
  std::error_code error;
  // Opening a pipe would block until it has a writer.
  if (is_there(file) && !fs::is_regular_file(file, error)) refuse(file, "is not a regular file");
  const auto opened = std::make_shared<const SafetensorsFile>(file);
  for (const SafetensorsEntry& entry : opened->entries())
    if (!tensors.emplace(entry.name, StoredTensor{opened, &entry}).second)
      refuse(file, "holds " + quoted_text(entry.name) + ", which another file of the folder holds, too");
}

TensorMap open_indexed(const fs::path& index) {
  TensorMap tensors;
  const auto weight_map = read_weight_map(index);
  // Each file once, however many tensors it holds.
  std::set<std::string> files;
  for (const auto& [tensor, file] : weight_map) files.insert(file);
  for (const std::string& file : files) add_file(tensors, index.parent_path() / file);
  for (const auto& [name, file] : weight_map) {
    const auto found = tensors.find(name);
    // Both directions are checked: an index that disagrees with its files is of another model.
    if (found == tensors.end() || found->second.file->path().filename() != file)
      refuse(index, "places " + quoted_text(name) + " in " + file + ", which does not hold it");
  }
  for (const auto& [name, tensor] : tensors)
    if (!weight_map.contains(name))
      refuse(index,
             "does not name " + quoted_text(name) + ", which " + tensor.file->path().filename().string() + " holds");
  return tensors;
}

// The tensors of model.safetensors, else of the files of model.safetensors.index.json. Throws Error(missing_input)
// without either, Error(bad_data) for an index that disagrees with its files or names files outside the folder.
TensorMap open_tensors(const fs::path& folder) {
  const fs::path single = folder / "model.safetensors";
  const fs::path index = folder / "model.safetensors.index.json";
  // In the order in which from_pretrained looks for them.
  if (is_there(single)) {
    TensorMap tensors;
    add_file(tensors, single);
    return tensors;
  }
  if (is_there(index)) return open_indexed(index);
  const std::string advice = is_there(folder / "pytorch_model.bin")
                                 ? "; it has pytorch_model.bin: save it again with safe_serialization=True"
                                 : "; a folder that save_pretrained wrote is needed";
  throw Error(ExitCode::missing_input,
              folder.string() + ": has neither model.safetensors nor model.safetensors.index.json" + advice);
}

std::string shape_text(const std::vector<std::int64_t>& shape) { return nlohmann::json(shape).dump(); }

// Each begins with a tensor's name.
using Problems = std::vector<std::string>;

// Throws Error(bad_data) that names all problems of a folder's tensors, but not thousands of them.
void report(const fs::path& folder, const Problems& problems) {
  constexpr std::size_t shown = 20;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, problems.size()); ++i)
    text.append(text.empty() ? "" : "\n").append(folder.string() + ": " + problems[i]);
  if (problems.size() > shown) text.append("\n").append(folder.string() + ": and more");
  if (!problems.empty()) throw Error(ExitCode::bad_data, text);
}

// Constant buffers that older versions saved beside the weights: causal masks and rotary frequencies.
bool is_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

TensorMap without_prefixes(const TensorMap& stored, HuggingfaceType type, Problems& problems) {
  TensorMap tensors;
  for (const auto& [name, tensor] : stored)
    // Older files lack the model's prefix, newer ones have it: names are compared without.
    if (!is_buffer(name) && !tensors.emplace(without_model_prefix(name, type), tensor).second)
      problems.push_back(quoted_text(name) + " appears twice, with and without its prefix");
  return tensors;
}

at::Tensor copy_tensor(const StoredTensor& source) {
  at::Tensor tensor = at::empty(source.entry->shape, at::dtype(tensor_type(source.entry->dtype)));
  const auto bytes = source.bytes();
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  // Weights are fp32 or bf16 here; fp32 holds every fp16 value.
  return tensor.scalar_type() == at::kHalf ? tensor.to(at::kFloat) : tensor;
}

void add_parameters(const HuggingfaceTensor& plan, const Graph& graph, const StoredTensor& source,
                    NamedWeights& weights) {
  const at::Tensor stored = copy_tensor(source);
  if (plan.expert) {
    const Parameter& parameter = graph.parameters[plan.parameters.front()];
    at::Tensor& experts = weights[parameter.name];
    if (!experts.defined()) experts = at::empty(parameter.shape, stored.options());
    experts[*plan.expert].copy_(stored);
    return;
  }
  const at::Tensor whole = plan.transposed ? stored.t() : stored;
  std::int64_t row = 0;
  for (const std::size_t index : plan.parameters) {
    const Parameter& parameter = graph.parameters[index];
    // GPT-2's query, key and value are one tensor there and three parameters here.
    weights[parameter.name] = whole.narrow(0, row, parameter.shape.front()).contiguous();
    row += parameter.shape.front();
  }
}

// Some files of tied models also hold the head. It must equal the embedding, or config.json does not describe the
// model.
void take_tied_head(TensorMap& tensors, const Graph& graph, const std::string& embedding, Problems& problems) {
  const auto head = tensors.find("lm_head.weight");
  if (!graph.model.tie_embeddings || head == tensors.end()) return;
  const auto token = tensors.find(embedding);
  if (token == tensors.end()) return;
  const auto ours = head->second.bytes();
  const auto theirs = token->second.bytes();
  // Compared as bytes, which also works for NaN.
  if (ours.size() == theirs.size() && std::memcmp(ours.data(), theirs.data(), ours.size()) == 0)
    tensors.erase(head);
  else
    problems.push_back(quoted_text(head->first) + " differs from the token embedding, but config.json ties the two");
}

void check_tensors(const std::vector<HuggingfaceTensor>& plans, HuggingfaceType type, const Graph& graph,
                   const TensorMap& tensors, Problems& problems) {
  std::set<std::string> expected;
  for (const HuggingfaceTensor& plan : plans) {
    const std::string name = without_model_prefix(plan.name, type);
    expected.insert(name);
    const auto found = tensors.find(name);
    if (found == tensors.end()) {
      problems.push_back(quoted_text(plan.name) + " is missing");
      continue;
    }
    const SafetensorsEntry& entry = *found->second.entry;
    if (entry.shape != plan.shape(graph))
      problems.push_back(quoted_text(plan.name) + " has the shape " + shape_text(entry.shape) +
                         ", but config.json implies " + shape_text(plan.shape(graph)));
    if (tensor_type(entry.dtype) == at::ScalarType::Undefined)
      problems.push_back(quoted_text(plan.name) + " is of dtype " + entry.dtype + "; F32, BF16 or F16 is needed");
  }
  // Tensors that would be ignored are an error: the weights may be of another architecture.
  for (const auto& [name, tensor] : tensors)
    if (!expected.contains(name))
      problems.push_back(quoted_text(tensor.entry->name) + " is unexpected: the model has no such tensor");
}

}  // namespace

NamedWeights load_huggingface(const fs::path& folder, const Graph& graph) {
  check_same_model(graph.model, model_recipe_from_huggingface(folder), (folder / "config.json").string());
  const HuggingfaceType type = huggingface_type_of(graph.model);
  const std::vector<HuggingfaceTensor> plans = huggingface_tensors(graph, type);
  // All tensors are checked before any is copied: memory is not filled for a model that is refused.
  Problems problems;
  TensorMap tensors = without_prefixes(open_tensors(folder), type, problems);
  take_tied_head(tensors, graph, without_model_prefix(plans.front().name, type), problems);
  check_tensors(plans, type, graph, tensors, problems);
  report(folder, problems);

  NamedWeights weights;
  for (const HuggingfaceTensor& plan : plans)
    add_parameters(plan, graph, tensors.at(without_model_prefix(plan.name, type)), weights);
  return weights;
}

}  // namespace llmtrain
