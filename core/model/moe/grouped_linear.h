// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "core/parameters/parameter_store.h"
#include "kernels/moe/expert_rows.h"

namespace llmtrain {

// Where several ranks make parts of a sum, one of them adds the bias; all have its gradient.
enum class BiasTerm { here, elsewhere };

// A linear layer of each expert, over the rows of that expert: weights [E, out, in], biases [E, out]. Operands and
// results may be columns of wider matrices. Experts run one after another, each on all threads.
class GroupedLinear {
 public:
  GroupedLinear(BoundParameter weight, std::optional<BoundParameter> bias, BiasTerm term)
      : weight_(weight), bias_(bias), term_(term) {}

  std::int64_t outputs() const { return weight_.part().shape[1]; }

  // y[rows, out] = x[rows, in] · weightᵀ + bias, where its term is here.
  void forward(const at::Tensor& x, const kernels::ExpertRows& map, const at::Tensor& y) const;
  // Adds to the gradients of weight and bias.
  void backward_parameters(const at::Tensor& dy, const at::Tensor& x, const kernels::ExpertRows& map) const;
  // dx = or += the gradient of x.
  void backward_input(const at::Tensor& dy, const kernels::ExpertRows& map, const at::Tensor& dx,
                      kernels::Accumulation accumulation) const;

 private:
  BoundParameter weight_;
  std::optional<BoundParameter> bias_;
  BiasTerm term_;
};

}  // namespace llmtrain
