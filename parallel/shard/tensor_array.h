// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/comm/communicator.h"

namespace llmtrain {

// LibTorch's name of a type, and the other way: that throws Error(internal_error) for types that ranks do not exchange.
at::ScalarType scalar_type(ElementType type);
ElementType element_type(at::ScalarType type);

// A contiguous tensor's memory as the Communicator takes it. Throws as element_type().
Array array_of(const at::Tensor& tensor);

}  // namespace llmtrain
