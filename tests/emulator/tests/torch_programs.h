// SPDX-License-Identifier: Apache-2.0
// What programs of LibTorch on the emulated device share.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "tests/emulator/tests/child_program.h"
#include "tests/emulator/torch/backend.h"

namespace emulated::test {

inline c10::Device device() { return {device_type, 0}; }
inline at::TensorOptions on_device() { return at::TensorOptions(at::kFloat).device(device()); }
inline at::Tensor pinned(std::int64_t elements) {
  return at::empty({elements}, at::TensorOptions(at::kFloat).pinned_memory(true));
}

inline c10::impl::VirtualGuardImpl guard() { return c10::impl::VirtualGuardImpl(device_type); }
inline c10::Stream side_stream() { return guard().getStreamFromGlobalPool(device()); }
inline c10::Stream main_stream() { return guard().getStream(device()); }

// Numbers that are the same everywhere.
inline at::Tensor numbers(std::vector<std::int64_t> sizes, double phase = 0) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return at::arange(count, at::kFloat).mul_(0.37).add_(phase).sin_().view(sizes);
}

}  // namespace emulated::test
