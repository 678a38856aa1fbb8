// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "kernels/sequence_part.h"

namespace llmtrain {

// Which experts the tokens of a step choose, and how narrowly. Layouts round differently: of nearly equal probabilities
// another may be the larger, and only then may a token go elsewhere.
class TokenChoices {
 public:
  struct Choice {
    std::vector<std::int64_t> experts{};  // best first
    std::vector<std::int64_t> kept{};     // those at which the token has a place
    double best = 0;                      // its largest probability, which decides on places by score
    // The least difference between neighbours in the descending order of the experts' probabilities and the largest one
    // of the other experts.
    double gap = 0;
  };
  // By the token's index in the global batch.
  using Layer = std::map<std::int64_t, Choice>;

  // As a router leaves T tokens.
  struct Routed {
    at::Tensor probabilities;  // [T, E]
    at::Tensor experts;        // int64 [T, k], best first
    at::Tensor row_of;         // int64 [T, k]: −1 without a place
  };

  // Takes the choices of tokens in place of what was taken of these before. Row i is the i-th of `rows` of a
  // micro-batch whose first token has the index `first`.
  void record(std::int64_t layer, const Routed& routed, const kernels::RowsAtHand& rows, std::int64_t first);

  // By the layer's index in the model.
  const std::map<std::int64_t, Layer>& layers() const { return layers_; }
  void clear() { layers_.clear(); }

 private:
  std::map<std::int64_t, Layer> layers_;
};

}  // namespace llmtrain
