// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "core/model/pass/kept_tensors.h"
#include "core/parameters/parameter_store.h"

namespace llmtrain {

// What a router thinks of each expert for each token, in fp32 whatever the type of x (float64 in float64). A linear
// router multiplies with its weight [E, H]. A cosine router (Chi et al., arXiv 2204.09179) projects tokens into a
// narrower space, in which its weight [E, P] has a row for each expert too, and takes the cosines of the angles between
// both, times min(2·exp(τ), 100) with the temperature τ that it learns.
class RouterLogits {
 public:
  struct CosineParameters {
    BoundParameter projection;   // [P, H]
    BoundParameter temperature;  // [1]
  };

  // What a cosine router keeps of T tokens.
  struct Saved {
    at::Tensor directions;  // [T, P]: projected tokens, of length 1
    at::Tensor lengths;     // [T, 1]: before that

    void visit(const KeptTensorVisitor& visit) { visit_all(visit, {&directions, &lengths}); }
  };

  RouterLogits(BoundParameter weight, const std::optional<CosineParameters>& cosine)
      : weight_(weight), cosine_(cosine) {}

  at::Tensor forward(const at::Tensor& x, Saved& saved) const;  // [T, H] → [T, E]
  // Adds to the gradients of the parameters; returns that of x, in the type of the logits.
  at::Tensor backward(const at::Tensor& dlogits, const at::Tensor& x, const Saved& saved) const;

 private:
  at::Tensor scale() const;  // of the cosines: [1]
  // Backward of the product of the weight's rows and the tokens' directions; returns the gradient of the directions.
  at::Tensor cosine_backward(const at::Tensor& dlogits, const at::Tensor& directions) const;

  BoundParameter weight_;
  std::optional<CosineParameters> cosine_;
};

}  // namespace llmtrain
