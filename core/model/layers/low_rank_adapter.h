// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/parameters/parameter_store.h"

namespace llmtrain {

// What an adapter adds to a linear layer with frozen weights: y[:, first …] += scale · (x·Aᵀ)·Bᵀ (Hu et al., arXiv
// 2106.09685). Of a matrix that tensor ranks split by output features B is split so, too, else A by input features; the
// ranks that hold the same part of the other matrix each see a part of its gradient (gradient_sum()).
class LowRankAdapter {
 public:
  // `first` is the adapted matrix's first feature in the layer's result.
  LowRankAdapter(BoundParameter a, BoundParameter b, std::int64_t first, double scale)
      : a_(a), b_(b), first_(first), scale_(scale) {}

  // x [T, in]; adds to y [T, out].
  void forward(const at::Tensor& x, const at::Tensor& y) const;
  // Adds to the gradients of A and B, and to dx.
  void backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& dx) const;

 private:
  BoundParameter a_, b_;
  std::int64_t first_;
  double scale_;
};

}  // namespace llmtrain
