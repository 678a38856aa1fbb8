// SPDX-License-Identifier: Apache-2.0
#include "tests/core/checkpoint/huggingface_fixture.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>

#include <optional>
#include <stdexcept>
#include <utility>

#include "core/base/file.h"

namespace llmtrain::test {

ModelRecipe gpt2_model() {
  ModelRecipe model;
  model.layers = 2;
  model.hidden_size = 8;
  model.heads = model.kv_heads = 2;
  model.head_dim = 4;
  model.ffn_hidden_size = 32;
  model.vocab_size = 11;
  model.max_sequence_length = 6;
  return model;
}

ModelRecipe llama_model() {
  ModelRecipe model = gpt2_model();
  model.architecture = Architecture::llama;
  model.activation = Activation::swiglu;
  model.norm = NormKind::rmsnorm;
  model.position = Position::rope;
  model.set_biases(false);
  model.tie_embeddings = false;
  return model;
}

NamedWeights counted_weights(const Graph& graph) {
  NamedWeights weights;
  std::int64_t next = 0;
  for (const Parameter& parameter : graph.parameters) {
    const std::int64_t end = next + parameter.elements();
    weights[parameter.name] = at::arange(next, end, at::dtype(at::kFloat)).reshape(parameter.shape);
    next = end;
  }
  return weights;
}

NamedWeights read_all(const WeightSource& source, const Graph& graph) {
  NamedWeights weights;
  for (const Parameter& parameter : graph.parameters) {
    std::vector<at::Tensor> pieces;
    visit_pieces(source, parameter, std::nullopt, source.type(parameter),
                 [&](const at::Tensor& piece) { pieces.push_back(piece.view({-1})); });
    weights[parameter.name] = at::cat(pieces).view(parameter.shape);
  }
  return weights;
}

void check_error(ExitCode code, const Strings& parts, const std::function<void()>& act) {
  try {
    act();
    FAIL_CHECK("no error");
  } catch (const Error& error) {
    CHECK(error.code() == code);
    for (const std::string& part : parts) CHECK_THAT(error.what(), Catch::Contains(part));
  }
}

SavedModel::SavedModel(const ModelRecipe& model) : graph_(Graph::build(model)), weights_(counted_weights(graph_)) {
  save_huggingface(path(), graph_, NamedWeightSource(weights_));
}

void SavedModel::change_config(const std::function<void(Json&)>& change) const {
  Json config = Json::parse(read_file(path() / "config.json"));
  change(config);
  folder_.write("config.json", config.dump());
}

void SavedModel::change_tensors(const std::function<void(std::vector<SafetensorsTensor>&)>& change) const {
  const std::filesystem::path file = path() / "model.safetensors";
  const SafetensorsFile opened(file);
  std::vector<SafetensorsTensor> tensors;
  for (const auto& entry : opened.entries())
    tensors.push_back({entry.name, entry.dtype, entry.shape, opened.bytes(entry).data()});
  change(tensors);
  write_safetensors(file, std::move(tensors));
}

void SavedModel::check_same() const {
  const NamedWeights loaded = load();
  REQUIRE(loaded.size() == weights_.size());
  for (const auto& [name, tensor] : weights_) {
    INFO(name);
    CHECK(at::equal(loaded.at(name), tensor));
  }
}

SafetensorsTensor& named(std::vector<SafetensorsTensor>& tensors, const std::string& name) {
  for (SafetensorsTensor& tensor : tensors)
    if (tensor.name == name) return tensor;
  throw std::runtime_error("the test has no tensor " + name);
}

}  // namespace llmtrain::test
