// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "core/model/moe/expert_ranks.h"
#include "core/model/moe/row_scaling.h"
#include "core/parameters/parameter_store.h"
#include "kernels/moe/expert_rows.h"

namespace llmtrain {

// A linear layer of each expert, over the rows of that expert: weights [E, out, in], biases [E, out]. Operands and
// results may be columns of wider matrices. Experts run one after another, each on all threads. With scaling the
// weights are rounded to E4M3, each expert's with a scale of its own, unless they are stored so; the operands are what
// the caller has rounded.
class GroupedLinear {
 public:
  // `summed`: the ranks that make parts of a sum with this one, of which the first adds the bias, and all have its
  // gradient; null where there are none. It may change between steps, and outlives this.
  GroupedLinear(BoundParameter weight, std::optional<BoundParameter> bias, const RowRanks* summed,
                const std::optional<RowScaling>& scaling)
      : weight_(weight), bias_(bias), summed_(summed), scaling_(scaling) {}

  std::int64_t outputs() const { return weight_.part().shape[1]; }
  at::ScalarType compute_type() const { return weight_.weight_type(); }

  // y[rows, out] = x[rows, in] · weightᵀ + bias, where this rank adds it. Makes the scales of the weights, fp32 [E, 1],
  // where they are undefined.
  void forward(const at::Tensor& x, const kernels::ExpertRows& map, const at::Tensor& y,
               at::Tensor& weight_scales) const;
  // Add to the gradients of weight and bias.
  void backward_weight(const at::Tensor& dy, const at::Tensor& x, const kernels::ExpertRows& map) const;
  void backward_bias(const at::Tensor& dy, const kernels::ExpertRows& map) const;
  // dx = or += the gradient of x.
  void backward_input(const at::Tensor& dy, const kernels::ExpertRows& map, const at::Tensor& dx,
                      kernels::Accumulation accumulation, at::Tensor weight_scales) const;

 private:
  at::Tensor weights(at::Tensor& scales) const;
  bool adds_bias() const { return bias_ && (summed_ == nullptr || summed_->position() == 0); }

  BoundParameter weight_;
  std::optional<BoundParameter> bias_;
  const RowRanks* summed_;
  std::optional<RowScaling> scaling_;  // none: products in the compute type
};

}  // namespace llmtrain
