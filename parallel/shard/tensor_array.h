// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/comm/element_type.h"

namespace llmtrain {

// A contiguous tensor's memory as a Communicator takes it. Throws Error(internal_error) for a type that ranks do not
// exchange.
Array array_of(const at::Tensor& contiguous);

}  // namespace llmtrain
