// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

#include "core/base/fault_point.h"

namespace llmtrain {

// fault_point() with a dense tensor's memory, wherever it lies: a GPU's is changed through a copy of the host's, in the
// order of the current stream. An undefined tensor has no memory. Waits for the GPU where a fault is requested only.
void tensor_fault_point(FaultPlace place, std::int64_t rank, std::int64_t step, const at::Tensor& tensor);

// What a step takes more where that is requested (has_grown()): a mebibyte of the device. Undefined otherwise.
at::Tensor grown_memory(std::int64_t rank, std::int64_t step, const c10::Device& device);

}  // namespace llmtrain
