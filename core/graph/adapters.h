// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/marks/name_patterns.h"

namespace llmtrain {

// Makes the parameters of low-rank adapters (Hu et al., arXiv 2106.09685) of the matrices that a recipe's patterns
// name.
class Adapters {
 public:
  explicit Adapters(std::optional<LoraRecipe> recipe);

  // A and B of a parameter's adapter, with local names, "attention.query.lora_a" and "….lora_b", and with DoRA (Liu et
  // al., arXiv 2402.09353) "….lora_magnitude", by how much the magnitude of each row differs from the length of the
  // matrix's; none where it is no matrix of a layer outside of the routed experts, or no pattern names it. A begins
  // with the variance of PyTorch's linear layers and the others with zeros, so that a model begins as it was.
  std::vector<Parameter> of(const Parameter& matrix);
  // What the adapters are multiplied by; 0 without one.
  double scale() const { return recipe_ ? recipe_->scale() : 0; }
  // The probability with which an element of their inputs is dropped.
  double dropout() const { return recipe_ ? recipe_->dropout : 0; }
  bool have_magnitudes() const { return recipe_ && recipe_->dora; }
  // Throws Error(bad_recipe) where a pattern has named none of the parameters that of() was asked for.
  void require_used() const;

 private:
  std::optional<LoraRecipe> recipe_;
  NamePatterns targets_;  // none without a recipe
};

// The same model without adapters.
ModelRecipe without_adapters(ModelRecipe model);

}  // namespace llmtrain
