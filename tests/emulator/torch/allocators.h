// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Allocator.h>

namespace emulated {

// LibTorch's allocators of device memory, on the thread's current device and stream, and of pinned memory.
c10::Allocator& device_allocator();
c10::Allocator& pinned_allocator();

}  // namespace emulated
