// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "core/model/moe/expert_ranks.h"
#include "core/model/moe/row_scaling.h"
#include "core/parameters/parameter_store.h"
#include "kernels/moe/expert_rows.h"

namespace llmtrain {

// A linear layer of each expert, over the rows of that expert: weights [E, out, in], biases [E, out], multiplied as
// kernels/moe/grouped_products.h says. Operands may be columns of wider matrices. With scaling the weights are rounded
// to E4M3, each expert's with a scale of its own, unless they are stored so; the operands are what the caller has
// rounded.
class GroupedLinear {
 public:
  // `summed`: the ranks that make parts of a sum with this one, of which the first adds the bias, and all have its
  // gradient; null where there are none. It may change between steps, and outlives this.
  GroupedLinear(BoundParameter weight, std::optional<BoundParameter> bias, const RowRanks* summed,
                const std::optional<RowScaling>& scaling)
      : weight_(weight), bias_(bias), summed_(summed), scaling_(scaling) {}

  std::int64_t outputs() const { return weight_.part().shape[1]; }
  at::ScalarType compute_type() const { return weight_.weight_type(); }

  // Whether the products on this device need maps with offsets.
  bool needs_offsets(const at::Device& device) const;

  // x as forward() takes it: as it is where its FP8 numbers are multiplied themselves (scaled_run_together()), else
  // widened.
  ScaledRows operand(const ScaledRows& x) const;

  // y[rows, out] = x[rows, in] · weightᵀ + bias, where this rank adds it; x is an operand(). Makes the scales of the
  // weights, fp32 [E, 1], where they are undefined.
  at::Tensor forward(const ScaledRows& x, const kernels::ExpertRows& map, at::Tensor& weight_scales) const;
  // The same into y, which may be columns of a wider matrix.
  void forward_into(const ScaledRows& x, const kernels::ExpertRows& map, const at::Tensor& y,
                    at::Tensor& weight_scales) const;
  // Add to the gradients of weight and bias.
  void backward_weight(const at::Tensor& dy, const at::Tensor& x, const kernels::ExpertRows& map) const;
  void backward_bias(const at::Tensor& dy, const kernels::ExpertRows& map) const;
  // The gradient of x; or dx += it.
  at::Tensor backward_input(const at::Tensor& dy, const kernels::ExpertRows& map, at::Tensor weight_scales) const;
  void add_backward_input(const at::Tensor& dy, const kernels::ExpertRows& map, const at::Tensor& dx,
                          at::Tensor weight_scales) const;

 private:
  std::int64_t inputs() const { return weight_.part().shape[2]; }
  at::Tensor weights(at::Tensor& scales) const;
  at::Tensor fp8_weights(at::Tensor& scales) const;
  std::optional<at::Tensor> biases() const;  // those that this rank adds

  BoundParameter weight_;
  std::optional<BoundParameter> bias_;
  const RowRanks* summed_;
  std::optional<RowScaling> scaling_;  // none: products in the compute type
};

}  // namespace llmtrain
