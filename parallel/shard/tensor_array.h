// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/comm/communicator.h"

namespace llmtrain {

// A contiguous tensor's memory as the Communicator takes it. Throws Error(internal_error) for types that ranks do not
// exchange.
Array array_of(const at::Tensor& tensor);

}  // namespace llmtrain
