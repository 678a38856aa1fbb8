// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>

#include <cstring>
#include <set>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/json_file.h"
#include "core/huggingface/huggingface.h"
#include "core/huggingface/huggingface_config.h"
#include "core/huggingface/huggingface_files.h"
#include "core/huggingface/huggingface_tensors.h"
#include "core/huggingface/tensor_dtype.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using TensorMap = std::map<std::string, HuggingfaceFiles::Tensor>;

std::string shape_text(const std::vector<std::int64_t>& shape) { return nlohmann::json(shape).dump(); }

// Collects the problems of a folder's tensors, to report them together, but not thousands of them.
class Problems {
 public:
  explicit Problems(const fs::path& folder) : folder_(folder.string()) {}

  void add(const std::string& name, const std::string& what) {
    constexpr std::size_t shown = 20;
    ++count_;
    if (count_ <= shown)
      text_.append(text_.empty() ? "" : "\n").append(folder_ + ": " + quoted_text(name) + " " + what);
    if (count_ == shown + 1) text_.append("\n" + folder_ + ": and more");
  }

  void finish() const {
    if (count_ > 0) throw Error(ExitCode::bad_data, text_);
  }

 private:
  std::string folder_;
  std::string text_;
  std::size_t count_ = 0;
};

TensorMap without_prefixes(const HuggingfaceFiles& files, HuggingfaceType type, Problems& problems) {
  TensorMap tensors;
  for (const auto& [name, tensor] : files.tensors())
    // Older files lack the model's prefix, newer ones have it: names are compared without.
    if (!is_huggingface_buffer(name) && !tensors.emplace(without_model_prefix(name, type), tensor).second)
      problems.add(name, "appears twice, with and without its prefix");
  return tensors;
}

at::Tensor copy_tensor(const HuggingfaceFiles::Tensor& source) {
  at::Tensor tensor = at::empty(source.entry->shape, at::dtype(tensor_type(source.entry->dtype)));
  const auto bytes = source.bytes();
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  // Weights are fp32 or bf16 here; fp32 holds every fp16 value.
  return tensor.scalar_type() == at::kHalf ? tensor.to(at::kFloat) : tensor;
}

void add_parameters(const HuggingfaceTensor& plan, const Graph& graph, const HuggingfaceFiles::Tensor& source,
                    NamedWeights& weights) {
  const at::Tensor stored = copy_tensor(source);
  const at::Tensor whole = plan.transposed ? stored.t() : stored;
  std::int64_t row = 0;
  for (const std::size_t index : plan.parameters) {
    const Parameter& parameter = graph.parameters[index];
    // GPT-2's query, key and value are one tensor there and three parameters here.
    weights[parameter.name] = whole.narrow(0, row, parameter.shape.front()).contiguous();
    row += parameter.shape.front();
  }
}

void check_tensor(const HuggingfaceTensor& plan, const Graph& graph, const SafetensorsEntry& entry,
                  Problems& problems) {
  if (entry.shape != plan.shape(graph))
    problems.add(plan.name, "has the shape " + shape_text(entry.shape) + ", but config.json implies " +
                                shape_text(plan.shape(graph)));
  if (tensor_type(entry.dtype) == at::ScalarType::Undefined)
    problems.add(plan.name, "is of dtype " + entry.dtype + "; F32, BF16 or F16 is needed");
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
    problems.add(head->first, "differs from the token embedding, but config.json ties the two");
}

void check_tensors(const std::vector<HuggingfaceTensor>& plans, HuggingfaceType type, const Graph& graph,
                   const TensorMap& tensors, Problems& problems) {
  std::set<std::string> expected;
  for (const HuggingfaceTensor& plan : plans) {
    const std::string name = without_model_prefix(plan.name, type);
    expected.insert(name);
    const auto found = tensors.find(name);
    if (found == tensors.end())
      problems.add(plan.name, "is missing");
    else
      check_tensor(plan, graph, *found->second.entry, problems);
  }
  // Tensors that would be ignored are an error: the weights may be of another architecture.
  for (const auto& [name, tensor] : tensors)
    if (!expected.contains(name)) problems.add(tensor.entry->name, "is unexpected: the model has no such tensor");
}

}  // namespace

ModelRecipe model_recipe_from_huggingface(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  return model_from_huggingface_config(parse_json<nlohmann::json>(read_text_file(file), file.string()), file.string());
}

NamedWeights load_huggingface(const fs::path& folder, const Graph& graph) {
  check_same_model(graph.model, model_recipe_from_huggingface(folder), (folder / "config.json").string());
  const HuggingfaceType type = huggingface_type_of(graph.model);
  const std::vector<HuggingfaceTensor> plans = huggingface_tensors(graph, type);
  const HuggingfaceFiles files(folder);
  // All tensors are checked before any is copied: memory is not filled for a model that is refused.
  Problems problems(folder);
  TensorMap tensors = without_prefixes(files, type, problems);
  take_tied_head(tensors, graph, without_model_prefix(plans.front().name, type), problems);
  check_tensors(plans, type, graph, tensors, problems);
  problems.finish();

  NamedWeights weights;
  for (const HuggingfaceTensor& plan : plans)
    add_parameters(plan, graph, tensors.at(without_model_prefix(plan.name, type)), weights);
  return weights;
}

}  // namespace llmtrain
