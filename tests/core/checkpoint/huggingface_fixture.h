// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/checkpoint/safetensors.h"
#include "core/huggingface/huggingface.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {

using Json = nlohmann::ordered_json;
using Strings = std::vector<std::string>;

// Tiny models: 2 layers, width 8, 2 heads, 11 tokens, 6 positions.
ModelRecipe gpt2_model();
ModelRecipe llama_model();

// 0, 1, 2, … through all parameters, so that no two elements are the same.
NamedWeights counted_weights(const Graph& graph);

// All parameters of the graph, each in pieces as exports and imports read it.
NamedWeights read_all(const WeightSource& source, const Graph& graph);

// Checks that `act` throws an Error of this code whose message has all these parts.
void check_error(ExitCode code, const Strings& parts, const std::function<void()>& act);

// A change to a JSON file, and fragments of the resulting message.
struct JsonCase {
  std::string what;
  std::function<void(Json&)> change;
  Strings parts;
};

// A model as transformers would have saved it, to be changed by a test.
class SavedModel {
 public:
  explicit SavedModel(const ModelRecipe& model);

  const TemporaryDirectory& folder() const { return folder_; }
  const std::filesystem::path& path() const { return folder_.path(); }
  NamedWeights load() const { return read_all(HuggingfaceWeights(path(), graph_), graph_); }

  void change_config(const std::function<void(Json&)>& change) const;
  // Rewrites the weights from their changed tensors.
  void change_tensors(const std::function<void(std::vector<SafetensorsTensor>&)>& change) const;
  // Checks that the weights that were saved are loaded.
  void check_same() const;

 private:
  TemporaryDirectory folder_;
  Graph graph_;
  NamedWeights weights_;
};

// The tensor of that name. Throws std::runtime_error.
SafetensorsTensor& named(std::vector<SafetensorsTensor>& tensors, const std::string& name);

}  // namespace llmtrain::test
