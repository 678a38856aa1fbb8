// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "tests/core/body/body_under_test.h"

namespace llmtrain::body::test {

// What LibTorch's allocator reports while both passes of a body run in fp32, for a random gradient of its output.
struct MeasuredPasses {
  std::int64_t peak = 0;  // bytes beside what both passes are given, and the sums of gradients
  at::Tensor value;
};
MeasuredPasses measured_passes(const Body& body, const GivenTensors& given);
std::int64_t measured_peak(const Body& body, const std::vector<at::Tensor>& fields);

}  // namespace llmtrain::body::test
