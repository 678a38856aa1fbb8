// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "tests/emulator/torch/boxed_values.h"

namespace emulated {

// Whether the sizes of the operator's results depend on its data: then CUDA waits for them as well.
bool depends_on_data(const std::string& name, const Values& arguments);

// Calls the operator below autograd.
Values call(const c10::OperatorHandle& op, Values arguments);

struct ResultShapes {
  Values results;   // tensors of the results' sizes, strides and types, with other contents and on any device
  const char* way;  // "meta": from the meta kernel; "dry run": from the CPU's kernel on zeros
};
ResultShapes shapes_of(const c10::OperatorHandle& op, const Values& arguments);

}  // namespace emulated
