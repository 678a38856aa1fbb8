// SPDX-License-Identifier: Apache-2.0
// What the lanes of a warp do together: barriers, shuffles, votes, reductions. All lanes of the mask must call the same
// function on the same line; where one has ended, does not exist or waits elsewhere, the launch fails.
#pragma once

#include <cstddef>
#include <string>

#include "tests/cuda_on_host/language/place.h"

// The scheduler orders what lanes exchange; the thread sanitizer does not know, and need not.
#define CUDA_ON_HOST_UNSEEN __attribute__((no_sanitize("thread")))

namespace cuda_on_host {

// The largest value that lanes exchange, in bytes.
constexpr std::size_t largest_exchange = 16;

unsigned lane();
[[noreturn]] void fail(const std::string& message, const Place& place);

void warp_barrier(unsigned mask, const Place& place);

// Gives `bytes` of this lane to the others of `mask`. Returns the values of all 32 lanes, `bytes` apart, which stay
// valid until this lane's next exchange but one.
const std::byte* exchange(unsigned mask, const void* value, std::size_t bytes, const char* what, const Place& place);

template <class T>
CUDA_ON_HOST_UNSEEN T of_lane(const std::byte* values, unsigned from, unsigned mask, const char* what,
                              const Place& place) {
  if ((mask >> from & 1U) == 0)
    fail(std::string(what) + " reads lane " + std::to_string(from) + ", which is not in its mask", place);
  T value;
  __builtin_memcpy(&value, values + from * sizeof(T), sizeof(T));
  return value;
}

// A warp's groups of `width` lanes shuffle by themselves.
struct Group {
  unsigned first, width, place;
  Group(int lanes, const Place& source) {
    if (lanes <= 0 || lanes > 32 || (lanes & (lanes - 1)) != 0)
      fail("a shuffle's width must be 1, 2, 4, 8, 16 or 32", source);
    width = static_cast<unsigned>(lanes);
    first = lane() / width * width;
    place = lane() % width;
  }
};

// fold(result, value) over the values of the mask's lanes, in their order.
template <class Result, class T, class Fold>
CUDA_ON_HOST_UNSEEN Result over_lanes(unsigned mask, T own, Result result, Fold fold, const char* what,
                                      const Place& place) {
  const std::byte* all = exchange(mask, &own, sizeof own, what, place);
  for (unsigned i = 0; i < 32; ++i) {
    T value{};
    if ((mask >> i & 1U) == 0) continue;
    __builtin_memcpy(&value, all + i * sizeof value, sizeof value);
    result = fold(result, value, i);
  }
  return result;
}

}  // namespace cuda_on_host

inline void __syncwarp(unsigned mask = 0xffffffffU, cuda_on_host::Place place = cuda_on_host::Place::here()) {
  cuda_on_host::warp_barrier(mask, place);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              cuda_on_host::Place place = cuda_on_host::Place::here()) {
  const cuda_on_host::Group group(width, place);
  const auto* all = cuda_on_host::exchange(mask, &value, sizeof(T), "__shfl_sync", place);
  const unsigned from = group.first + static_cast<unsigned>(source) % group.width;
  return cuda_on_host::of_lane<T>(all, from, mask, "__shfl_sync", place);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                  cuda_on_host::Place place = cuda_on_host::Place::here()) {
  const cuda_on_host::Group group(width, place);
  const auto* all = cuda_on_host::exchange(mask, &value, sizeof(T), "__shfl_xor_sync", place);
  const unsigned from = cuda_on_host::lane() ^ static_cast<unsigned>(bits);
  // A lane reads from groups in front of its own, not from those behind it.
  if (from >= group.first + group.width) return value;
  return cuda_on_host::of_lane<T>(all, from, mask, "__shfl_xor_sync", place);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   cuda_on_host::Place place = cuda_on_host::Place::here()) {
  const cuda_on_host::Group group(width, place);
  const auto* all = cuda_on_host::exchange(mask, &value, sizeof(T), "__shfl_down_sync", place);
  if (group.place + delta >= group.width) return value;
  return cuda_on_host::of_lane<T>(all, cuda_on_host::lane() + delta, mask, "__shfl_down_sync", place);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 cuda_on_host::Place place = cuda_on_host::Place::here()) {
  const cuda_on_host::Group group(width, place);
  const auto* all = cuda_on_host::exchange(mask, &value, sizeof(T), "__shfl_up_sync", place);
  if (group.place < delta) return value;
  return cuda_on_host::of_lane<T>(all, cuda_on_host::lane() - delta, mask, "__shfl_up_sync", place);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, cuda_on_host::Place place = cuda_on_host::Place::here()) {
  return cuda_on_host::over_lanes(
      mask, predicate != 0 ? 1U : 0U, 0U, [](unsigned bits, unsigned its, unsigned i) { return bits | its << i; },
      "__ballot_sync", place);
}

inline int __any_sync(unsigned mask, int predicate, cuda_on_host::Place place = cuda_on_host::Place::here()) {
  return static_cast<int>(__ballot_sync(mask, predicate, place) != 0);
}

inline int __all_sync(unsigned mask, int predicate, cuda_on_host::Place place = cuda_on_host::Place::here()) {
  return static_cast<int>(__ballot_sync(mask, predicate, place) == mask);
}

inline unsigned __reduce_max_sync(unsigned mask, unsigned value,
                                  cuda_on_host::Place place = cuda_on_host::Place::here()) {
  return cuda_on_host::over_lanes(
      mask, value, 0U, [](unsigned a, unsigned b, unsigned) { return a > b ? a : b; }, "__reduce_max_sync", place);
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value,
                                  cuda_on_host::Place place = cuda_on_host::Place::here()) {
  return cuda_on_host::over_lanes(
      mask, value, 0U, [](unsigned a, unsigned b, unsigned) { return a + b; }, "__reduce_add_sync", place);
}
