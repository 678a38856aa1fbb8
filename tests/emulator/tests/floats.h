// SPDX-License-Identifier: Apache-2.0
// Small kernels over fp32 numbers, for programs without LibTorch.
#pragma once

#include <cstddef>

#include "tests/emulator/device/runtime.h"

namespace emulated::test {

// Numbers on a device or in pinned memory. Owns nothing.
struct Floats {
  float* data = nullptr;
  std::size_t count = 0;

  Access read() const { return {data, count * sizeof(float), false}; }
  Access written() const { return {data, count * sizeof(float), true}; }
};

Floats device_floats(std::size_t count, int device = 0);
Floats pinned_floats(std::size_t count);

void set(Stream* stream, const Floats& x, float value);
void add(Stream* stream, const Floats& x, float value);
void copy(Stream* stream, const Floats& from, const Floats& to);

// Orders `later` after what `earlier` has.
void order(Stream* earlier, Stream* later);

// Copies the first number to the host and waits for it.
float first_of(Stream* stream, const Floats& x);

}  // namespace emulated::test
