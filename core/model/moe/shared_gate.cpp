// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/shared_gate.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/sigmoid.h>

#include <optional>

#include "core/model/moe/router_type.h"
#include "kernels/gemm.h"

namespace llmtrain {

void SharedGate::add(at::Tensor& y, const at::Tensor& x, const at::Tensor& output, Saved& saved) const {
  saved.gates = at::sigmoid(kernels::linear(in_router_type(x), in_router_type(weight_.weight()), std::nullopt));
  saved.output = output;
  y.add_(output * saved.gates.to(output.scalar_type()));
}

at::Tensor SharedGate::backward(const at::Tensor& dy, const at::Tensor& x, at::Tensor& dx, Saved& saved) const {
  const at::Tensor dgates = (in_router_type(dy) * in_router_type(saved.output)).sum(1, true);
  const at::Tensor doutput = dy * saved.gates.to(dy.scalar_type());
  // The slope of the sigmoid at its value.
  const at::Tensor dlogits = dgates * saved.gates * (1 - saved.gates);
  saved = {};
  weight_.add_weight_gradient(dlogits, in_router_type(x));
  dx.add_(kernels::linear_backward_input(dlogits, in_router_type(weight_.weight())));
  return doutput;
}

}  // namespace llmtrain
