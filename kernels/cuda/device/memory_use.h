// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace llmtrain::kernels {

// Bytes that a kernel reads or writes; begin is null where there are none. A GPU ignores it; the emulated one checks it
// for races and overruns, and counts it.
struct MemoryUse {
  const void* begin = nullptr;
  std::size_t bytes = 0;
  bool is_write = false;
  bool is_update = false;  // a write of what was read before
};

template <class T>
MemoryUse reads(const T* begin, std::size_t count) {
  return {begin, begin == nullptr ? 0 : count * sizeof(T), false};
}

template <class T>
MemoryUse writes(const T* begin, std::size_t count) {
  return {begin, begin == nullptr ? 0 : count * sizeof(T), true};
}

// What is read before it is written.
template <class T>
MemoryUse updates(const T* begin, std::size_t count) {
  return {begin, begin == nullptr ? 0 : count * sizeof(T), true, true};
}

}  // namespace llmtrain::kernels
