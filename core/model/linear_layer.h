// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "core/parameters/parameter_store.h"

namespace llmtrain {

// y = x · weightᵀ + bias. Weight and bias may each be several consecutive parameters used as one matrix.
class LinearLayer {
 public:
  LinearLayer(BoundParameter weight, std::optional<BoundParameter> bias) : weight_(weight), bias_(bias) {}

  at::Tensor forward(const at::Tensor& x) const;  // [T, in] → [T, out]
  // Adds to the gradients of weight and bias; returns dx.
  at::Tensor backward(const at::Tensor& dy, const at::Tensor& x) const;

 private:
  BoundParameter weight_;
  std::optional<BoundParameter> bias_;
};

// Adds the gradient of a bias that was added to every row.
void add_bias_gradient(const at::Tensor& dy, const BoundParameter& bias);

}  // namespace llmtrain
