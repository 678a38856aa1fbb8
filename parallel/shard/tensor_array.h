// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/comm/communicator.h"

namespace llmtrain {

// Convert between LibTorch's types and ours. Throw Error(internal_error) for types that ranks do not exchange.
at::ScalarType scalar_type(ElementType type);
ElementType element_type(at::ScalarType type);

// A contiguous tensor's memory in the form that the Communicator takes; not owned. Throws like element_type().
Array array_of(const at::Tensor& tensor);

}  // namespace llmtrain
