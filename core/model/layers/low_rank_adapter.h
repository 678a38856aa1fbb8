// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "core/model/layers/tensor_split.h"
#include "core/model/pass/pass_context.h"
#include "core/model/pass/sequences.h"
#include "core/parameters/parameter_store.h"

namespace llmtrain {

// What an adapter adds to a linear layer with frozen weights: y[:, first …] += scale · (d(x)·Aᵀ)·Bᵀ (Hu et al., arXiv
// 2106.09685), with dropout d in training. Of a matrix that tensor ranks split by output features B is split so, too,
// else A by input features; the ranks that hold the same part of the other matrix each see a part of its gradient
// (gradient_sum()).
//
// With magnitudes (DoRA; Liu et al., arXiv 2402.09353) the layer's matrix is m · V ÷ ‖V‖ with V = W + scale · B·A, row
// by row. What is trained of m is how far it is from ‖W‖, so that zeros leave the model as it was. ‖V‖ counts as a
// constant in the backward (section 4.3). Dropout concerns the difference from W·x, as in PEFT.
class LowRankAdapter {
 public:
  struct Settings {
    std::int64_t first = 0;  // the adapted matrix's first feature in the layer's result
    double scale = 0;
    std::int64_t input = 0;  // input features of all tensor ranks
    double dropout = 0;
    std::uint64_t dropout_site = 0;  // the same on every rank
  };
  struct Magnitude {
    BoundParameter change;    // m − ‖W‖, one per row of the matrix
    TensorSplit input_ranks;  // those that have the rows' other parts
  };

  LowRankAdapter(BoundParameter a, BoundParameter b, std::optional<Magnitude> magnitude, const Settings& settings)
      : a_(a), b_(b), magnitude_(magnitude), settings_(settings) {}

  bool has_magnitude() const { return magnitude_.has_value(); }
  // With magnitudes m ÷ ‖V‖ and 1 ÷ ‖V‖ of each row: [2, out], in fp32 at least; `weight` is the layer's matrix. The
  // ranks that have the other parts of the rows meet.
  at::Tensor factors(const at::Tensor& weight) const;

  // x [T, in], of all tokens of `rows`; adds to y [T, out], x · weightᵀ without a bias. `factors`: the adapter's own;
  // undefined without magnitudes.
  struct Operands {
    const at::Tensor& x;
    const at::Tensor& weight;
    const at::Tensor& factors;
  };
  void forward(const Operands& operands, const at::Tensor& y, const Sequences& rows, const PassContext& pass) const;
  // Whether the gradient that goes through the layer's matrix to its input is another one than y's.
  bool scales_gradient(const PassContext& pass) const { return has_magnitude() && !drops(pass); }
  // Makes of y's gradient the former, in place.
  void scale_gradient(const at::Tensor& dy, const at::Tensor& factors) const;
  // Adds to the gradients of A, B and the magnitudes, and to dx; dy is y's gradient.
  void backward(const at::Tensor& dy, const Operands& operands, const at::Tensor& dx, const Sequences& rows,
                const PassContext& pass) const;

 private:
  bool drops(const PassContext& pass) const { return pass.trains() && settings_.dropout > 0; }
  // The mask of the adapter's input, whose indices are those of the input that has all features of all tokens.
  at::Tensor dropped(const at::Tensor& x, const Sequences& rows, const PassContext& pass) const;
  std::int64_t features() const { return b_.part().shape[0]; }
  // What belongs to the adapted matrix of the layer's matrix, and of its result.
  at::Tensor rows_of(const at::Tensor& weight) const { return weight.narrow(0, settings_.first, features()); }
  at::Tensor columns_of(const at::Tensor& y) const { return y.narrow(1, settings_.first, features()); }

  BoundParameter a_, b_;
  std::optional<Magnitude> magnitude_;
  Settings settings_;
};

}  // namespace llmtrain
