// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <optional>

#include "core/model/parameter_store.h"

namespace llmtrain {

// y = x · weightᵀ + bias on parameters of a store. The weight (and bias) may be several consecutive parameters that
// are multiplied as one matrix.
class LinearLayer {
 public:
  struct Group {
    std::size_t first = 0;
    std::size_t last = 0;
  };

  LinearLayer(ParameterStore& store, Group weight, std::optional<Group> bias);

  at::Tensor forward(const at::Tensor& x) const;  // [T, in] → [T, out]
  // Adds to the gradients of weight and bias; returns dx.
  at::Tensor backward(const at::Tensor& dy, const at::Tensor& x) const;

 private:
  ParameterStore& store_;
  Group weight_;
  std::optional<Group> bias_;
};

}  // namespace llmtrain
