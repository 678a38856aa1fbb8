// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/accumulation_type.h"

namespace llmtrain {

// What routers and gates compute in: fp32, or float64 where x is.
inline at::Tensor in_router_type(const at::Tensor& x) { return x.to(kernels::accumulation_type(x)); }

}  // namespace llmtrain
