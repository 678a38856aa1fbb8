// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>

namespace emulated {

// The generator of random numbers that LibTorch gives a device; at::manual_seed() seeds it.
const at::Generator& default_generator(int device);
at::Generator new_generator(int device);

// A generator of the CPU's kind for one launch of `generator`, a device's, which goes on as CUDA's does: by the order
// of launches, whenever they run.
at::Generator take_for_launch(const at::Generator& generator);

}  // namespace emulated
