// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/model/pass/pass_context.h"
#include "core/model/pass/sequences.h"
#include "core/parameters/parameter_store.h"

namespace llmtrain {

// What an adapter adds to a linear layer with frozen weights: y[:, first …] += scale · (d(x)·Aᵀ)·Bᵀ (Hu et al., arXiv
// 2106.09685), with dropout d in training. Of a matrix that tensor ranks split by output features B is split so, too,
// else A by input features; the ranks that hold the same part of the other matrix each see a part of its gradient
// (gradient_sum()).
class LowRankAdapter {
 public:
  struct Settings {
    std::int64_t first = 0;  // the adapted matrix's first feature in the layer's result
    double scale = 0;
    std::int64_t input = 0;  // input features of all tensor ranks
    double dropout = 0;
    std::uint64_t dropout_site = 0;  // the same on every rank
  };

  LowRankAdapter(BoundParameter a, BoundParameter b, const Settings& settings) : a_(a), b_(b), settings_(settings) {}

  // x [T, in], of all tokens of `rows`; adds to y [T, out].
  void forward(const at::Tensor& x, const at::Tensor& y, const Sequences& rows, const PassContext& pass) const;
  // Adds to the gradients of A and B, and to dx.
  void backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& dx, const Sequences& rows,
                const PassContext& pass) const;

 private:
  // The mask of the adapter's input, whose indices are those of the input that has all features of all tokens.
  at::Tensor dropped(const at::Tensor& x, const Sequences& rows, const PassContext& pass) const;

  BoundParameter a_, b_;
  Settings settings_;
};

}  // namespace llmtrain
