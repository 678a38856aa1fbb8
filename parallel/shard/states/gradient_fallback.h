// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace llmtrain {

// The share of a matrix's gradients beyond which sums that saturate count: auto-scaling halves μ there (Peng et al.,
// arXiv 2310.18313, section 2.1).
constexpr double most_saturated = 1e-5;

// Which matrices' gradients leave FP8 for good: those of which more than `most_saturated` of the sums over the data
// ranks have saturated in several steps in a row, so that their scale does not follow them. Their products stay in FP8;
// of a layer whose operands overflow (core/model/layers/fp8_history.h) products and gradients leave.
//
// All ranks hold this of all matrices, which is two numbers each: it follows from the shares that they exchange, any of
// them can write a checkpoint, and any layout reads it.
class GradientFallback {
 public:
  // A matrix whose gradients leave FP8, and the share of them that has saturated in the last step.
  struct Fallback {
    std::size_t matrix = 0;
    double share = 0;
  };
  // `matrices`: indices of parameters (fp8_matrices() in core/graph/fp8_products.h); `steps`: after how many steps in a
  // row, at least 1.
  GradientFallback(std::vector<std::size_t> matrices, std::int64_t steps);

  const std::vector<std::size_t>& matrices() const { return matrices_; }
  bool has_left(std::size_t matrix) const { return states_[index_.at(matrix)][1] == 1; }

  // In a step: notes the share of a matrix's sums that has saturated, of a rank that holds it.
  void note(std::size_t matrix, double share) { shares_[index_.at(matrix)] = share; }
  // What this rank has noted since the last call, in the order of the matrices; 0 of those that it does not hold.
  std::vector<double> take_shares();
  // Ends a step with the largest of all ranks; returns what leaves FP8 from the next one on. Not called of a step whose
  // gradients are not finite: it leaves no trace.
  std::vector<Fallback> record(std::span<const double> shares);

  // What checkpoints keep of a matrix, by its index among all: in how many steps in a row, up to the last one, too many
  // sums saturated; and 1 where its gradients have left FP8. At the same address for good.
  using State = std::array<float, 2>;
  std::span<const float, 2> state(std::size_t index) const { return states_[index]; }
  void set_state(std::size_t index, const State& state) { states_[index] = state; }

 private:
  std::vector<std::size_t> matrices_;
  float steps_;
  std::unordered_map<std::size_t, std::size_t> index_;  // into the others, by parameter
  std::vector<State> states_;
  std::vector<double> shares_;  // of this step
};

}  // namespace llmtrain
