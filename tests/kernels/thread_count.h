// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/Parallel.h>

namespace llmtrain::kernels {

// The result of `make` with LibTorch limited to `threads` threads.
template <class Make>
auto with_threads(int threads, Make make) {
  const int before = at::get_num_threads();
  at::set_num_threads(threads);
  auto result = make();
  at::set_num_threads(before);
  return result;
}

}  // namespace llmtrain::kernels
