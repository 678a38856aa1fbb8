// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>

#include "core/model/parameter_store.h"
#include "core/recipe/recipe.h"
#include "kernels/norm.h"

namespace llmtrain {

// Layer or root-mean-square normalisation over the last axis on parameters of a store.
class NormLayer {
 public:
  struct Statistics {
    at::Tensor mean, rstd;
  };

  NormLayer(ParameterStore& store, NormKind kind, double eps, std::size_t weight, std::optional<std::size_t> bias);

  at::Tensor forward(const at::Tensor& x, Statistics& statistics) const;
  at::Tensor recompute(const at::Tensor& x, const Statistics& statistics) const;
  // dx += the gradient at x; adds to the gradients of weight and bias.
  void backward(const at::Tensor& dy, const at::Tensor& x, const Statistics& statistics, at::Tensor& dx) const;

 private:
  kernels::NormParameters parameters() const;

  ParameterStore& store_;
  kernels::NormMode mode_;
  double eps_;
  std::size_t weight_;
  std::optional<std::size_t> bias_;
};

}  // namespace llmtrain
