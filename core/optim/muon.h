// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/optim/optimizer.h"
#include "core/optim/whole_matrices.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// Muon (Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024), with the weight decay and the
// scale of Liu et al. (arXiv 2502.16982, section 2.2), for flat memory of weight matrices alone, all of which decay. As
// torch.optim.Muon, with mean m, gradient g, learning rate η and decay λ:
//   m ← μ·m + (1 − μ)·g,   O = orthogonalize(μ·m + (1 − μ)·g, without Nesterov m),   W ← (1 − η·λ)·W − η·scale·O
// The products of the orthogonalisation are in fp32 on a CPU and in bf16 on a GPU. Its one state is m, in fp32.
class Muon final : public Optimizer {
 public:
  // The matrices outlive this.
  Muon(const OptimizerRecipe& recipe, const StateMemory& memory, const WholeMatrices& matrices);

  // Updates all of the flat memory at once. Collective as WholeMatrices::for_each(); blocks.
  void update(const OptimizerUpdate& update) override;
  // Its memory is in fp32 alone: these throw Error(internal_error).
  void find_largest(std::span<const ScaledUpdate> updates) const override;
  void update(std::span<const ScaledUpdate> updates) override;
  std::vector<OptimizerState> states() const override { return {{"m", momentum_}}; }

 private:
  OptimizerRecipe recipe_;
  const WholeMatrices& matrices_;
  at::Tensor momentum_;
};

// What an update of a matrix [rows, columns] is multiplied with.
double muon_scale(MuonScale scale, std::int64_t rows, std::int64_t columns);

}  // namespace llmtrain
