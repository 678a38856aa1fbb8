// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "core/parameters/parameter_store.h"
#include "core/recipe/recipe.h"
#include "kernels/norm.h"

namespace llmtrain {

// Layer or root-mean-square normalisation over the last axis, with parameters that are stored elsewhere.
class NormLayer {
 public:
  struct Statistics {
    at::Tensor mean, rstd;
  };

  NormLayer(NormKind kind, double eps, BoundParameter weight, std::optional<BoundParameter> bias);

  at::Tensor forward(const at::Tensor& x, Statistics& statistics) const;
  at::Tensor recompute(const at::Tensor& x, const Statistics& statistics) const;
  // dx += the gradient at x; adds to the gradients of weight and bias.
  void backward(const at::Tensor& dy, const at::Tensor& x, const Statistics& statistics, at::Tensor& dx) const;

 private:
  kernels::NormParameters parameters() const;

  kernels::NormMode mode_;
  double eps_;
  BoundParameter weight_;
  std::optional<BoundParameter> bias_;
};

}  // namespace llmtrain
