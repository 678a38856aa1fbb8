// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "core/model/pass/kept_tensors.h"
#include "core/parameters/parameter_store.h"

namespace llmtrain {

// How much of the shared experts' output a token takes: the sigmoid of its product with a weight [1, H], as in
// Qwen2-MoE. In fp32, whatever the type of x (float64 in float64).
class SharedGate {
 public:
  struct Saved {
    at::Tensor gates;   // [T, 1]
    at::Tensor output;  // [T, H], of the shared experts

    void visit(const KeptTensorVisitor& visit) { visit_all(visit, {&gates, &output}); }
  };

  explicit SharedGate(BoundParameter weight) : weight_(weight) {}

  // y += gate · output, for x of which `output` was made; keeps the output.
  void add(at::Tensor& y, const at::Tensor& x, const at::Tensor& output, Saved& saved) const;
  // Returns the gradient of the output, and adds to the weight's gradient and to dx. Leaves `saved` empty.
  at::Tensor backward(const at::Tensor& dy, const at::Tensor& x, at::Tensor& dx, Saved& saved) const;

 private:
  BoundParameter weight_;
};

}  // namespace llmtrain
