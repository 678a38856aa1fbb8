// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace emulated {

// Runs any operator that has no kernel here: finds its results' sizes at once, and lets the stream run the CPU's kernel
// over the device's memory.
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace emulated
