// SPDX-License-Identifier: Apache-2.0
// Operators for which CUDA has one kernel and LibTorch a composite one for other devices: without a kernel of the
// device's own they would be taken apart, and their launches would not be CUDA's. The CPU's kernel runs each as a
// whole.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>

#include "tests/emulator/torch/fallback.h"

namespace emulated {
namespace {

// CUDA's kernels of these take lists, unless they copy from the host.
bool takes_lists(const std::string& name) {
  return name.rfind("aten::_foreach_", 0) == 0 && name.rfind("aten::_foreach_copy", 0) != 0;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (name.name != "aten::silu_backward" && !takes_lists(name.name)) continue;
    if (name.overload_name.find("out") != std::string::npos) continue;  // these call the others
    m.impl(c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&fallback>());
  }
}

}  // namespace emulated
