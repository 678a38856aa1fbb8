// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace llmtrain {

// What routers and gates compute in: fp32, or float64 where x is.
inline at::Tensor in_router_type(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }

}  // namespace llmtrain
