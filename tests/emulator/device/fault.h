// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace emulated {

// What a program does wrong on the device.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct OutOfMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace emulated
