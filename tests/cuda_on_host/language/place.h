// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace cuda_on_host {

// A line of a kernel's source. Clang 14 has no std::source_location.
struct Place {
  const char* file = "";
  int line = 0;
  static constexpr Place here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) { return {file, line}; }
};

}  // namespace cuda_on_host
