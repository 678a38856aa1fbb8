// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "tests/emulator/torch/backend.h"

namespace emulated {

inline bool is_on_device(const at::Tensor& t) { return t.defined() && t.device().type() == device_type; }

// A device tensor as a stream's thread sees it. Like a launched kernel it keeps no memory alive.
class SeenTensor {
 public:
  explicit SeenTensor(const at::Tensor& t);

  at::Tensor on_host() const;  // a CPU tensor over the same memory; for a stream's thread
  Access access(bool is_write) const;
  const std::vector<std::int64_t>& sizes() const { return sizes_; }

 private:
  void* data_ = nullptr;  // nullptr: no element
  std::vector<std::int64_t> sizes_, strides_;
  at::ScalarType type_ = at::kFloat;
};

inline Access access_of(const at::Tensor& t, bool is_write) { return SeenTensor(t).access(is_write); }

// A copy of a tensor of the host, in memory that LibTorch does not count: it counts for the thread that allocates, and
// another one frees this.
at::Tensor uncounted_copy(const at::Tensor& t);

// Before LibTorch's operators run on a stream's thread.
void set_up_stream_thread();

}  // namespace emulated
