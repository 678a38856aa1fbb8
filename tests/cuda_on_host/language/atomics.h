// SPDX-License-Identifier: Apache-2.0
// Atomic operations, relaxed as a device's are. Fibers run one at a time, so that only the thread sanitizer tells them
// from plain ones; in which order blocks arrive, the seed decides.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace cuda_on_host {

// Replaces *place by change(*place); returns what it was.
template <class T, class Change>
T replace_atomically(T* place, Change change) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "CUDA's atomic operations are for 4 and 8 bytes");
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  auto* bits = reinterpret_cast<Bits*>(place);
  Bits seen = __atomic_load_n(bits, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(bits, &seen, std::bit_cast<Bits>(static_cast<T>(change(std::bit_cast<T>(seen)))),
                                      true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return std::bit_cast<T>(seen);
}

}  // namespace cuda_on_host

template <class T>
T atomicAdd(T* place, std::type_identity_t<T> value) {
  return cuda_on_host::replace_atomically(place, [value](T old) { return old + value; });
}

template <class T>
T atomicMax(T* place, std::type_identity_t<T> value) {
  return cuda_on_host::replace_atomically(place, [value](T old) { return old < value ? value : old; });
}

template <class T>
T atomicExch(T* place, std::type_identity_t<T> value) {
  return cuda_on_host::replace_atomically(place, [value](T) { return value; });
}

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
