// SPDX-License-Identifier: Apache-2.0
// Helper of huggingface_roundtrip_test.py, which uses the real transformers and safetensors packages:
//   export RECIPE FOLDER OURS DTYPE [BYTES]   random weights into a transformers folder, in files of at most that many
//                                     bytes, and under our names into a file
//   import FOLDER RECIPE OURS         what there is of the weights of a transformers folder, under our names into a
//   file model FOLDER                      the folder's config.json in our keys, on standard output frequencies FOLDER
//   what its config.json makes of RoPE: the amplitude, and the angle per position of
//                                     each pair of a head's elements
//   copy FROM TO                      a safetensors file, read and written again
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/safetensors.h"
#include "core/graph/rope_frequencies.h"
#include "core/huggingface/huggingface.h"
#include "core/huggingface/tensor_dtype.h"
#include "core/recipe/model_from/huggingface_config.h"
#include "core/recipe/recipe_io.h"

namespace {

using llmtrain::Graph;
using llmtrain::NamedWeights;

at::Tensor random_tensor(const std::vector<std::int64_t>& shape, std::mt19937& random) {
  at::Tensor tensor = at::empty(shape, at::dtype(at::kFloat));
  std::uniform_real_distribution<float> values(-1, 1);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) tensor.data_ptr<float>()[i] = values(random);
  return tensor;
}

NamedWeights random_weights(const Graph& graph, at::ScalarType type) {
  std::mt19937 random(7);
  NamedWeights weights;
  for (const auto& parameter : graph.parameters)
    weights[parameter.name] = random_tensor(parameter.shape, random).to(type);
  return weights;
}

NamedWeights read_all(const llmtrain::WeightSource& source, const Graph& graph) {
  NamedWeights weights;
  for (const auto& parameter : graph.parameters)
    if (source.holds(parameter)) weights[parameter.name] = source.read(parameter, llmtrain::whole_box(parameter));
  return weights;
}

void save_ours(const NamedWeights& weights, const std::string& file) {
  std::vector<llmtrain::SafetensorsTensor> tensors;
  for (const auto& [name, tensor] : weights)
    tensors.push_back({name, llmtrain::dtype_name(tensor.scalar_type()), tensor.sizes().vec(), tensor.data_ptr()});
  llmtrain::write_safetensors(file, std::move(tensors));
}

void copy_file(const std::string& from, const std::string& to) {
  const llmtrain::SafetensorsFile file(from);
  std::vector<llmtrain::SafetensorsTensor> tensors;
  for (const auto& entry : file.entries())
    tensors.push_back({entry.name, entry.dtype, entry.shape, file.bytes(entry).data()});
  llmtrain::write_safetensors(to, std::move(tensors));
}

Graph graph_of(const std::string& recipe) { return Graph::build(llmtrain::read_recipe(recipe).model); }

int run(const std::vector<std::string>& words) {
  if ((words.size() == 5 || words.size() == 6) && words[0] == "export") {
    const Graph graph = graph_of(words[1]);
    const NamedWeights weights = random_weights(graph, words[4] == "bf16" ? at::kBFloat16 : at::kFloat);
    llmtrain::HuggingfaceFormat format{weights.begin()->second.scalar_type()};
    if (words.size() == 6) format.shard_bytes = std::stoll(words[5]);
    llmtrain::save_huggingface(words[2], graph, llmtrain::NamedWeightSource(weights), format);
    save_ours(weights, words[3]);
  } else if (words.size() == 4 && words[0] == "import") {
    const Graph graph = graph_of(words[2]);
    save_ours(read_all(llmtrain::HuggingfaceWeights(words[1], graph), graph), words[3]);
  } else if (words.size() == 2 && words[0] == "model") {
    llmtrain::Recipe recipe;
    recipe.model = llmtrain::model_recipe_from_huggingface(words[1]);
    std::puts(llmtrain::to_json(recipe)["model"].dump().c_str());
  } else if (words.size() == 2 && words[0] == "frequencies") {
    const Graph graph = Graph::build(llmtrain::model_recipe_from_huggingface(words[1]));
    const llmtrain::RopeSettings rope = llmtrain::rope_settings(graph).front();
    std::printf("%.17g\n", llmtrain::rope_amplitude(rope));
    for (const double frequency : llmtrain::rope_frequencies(rope)) std::printf("%.17g\n", frequency);
  } else if (words.size() == 3 && words[0] == "copy") {
    copy_file(words[1], words[2]);
  } else {
    std::fputs("huggingface_tool: export, import, model, frequencies or copy is needed\n", stderr);
    return 2;
  }
  return 0;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run({words + 1, words + count});
  } catch (const llmtrain::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
