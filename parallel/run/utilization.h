// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

namespace llmtrain {

// The MFU of a run's steps: their share of the highest rate of arithmetic that is known, at most 1. The rate that was
// measured before the run may be too low, because the probe ran for a moment only and perhaps beside other programs; a
// step that is faster has shown a higher one.
class Utilization {
 public:
  // `measured`: FLOP/s of all ranks together, above 0.
  explicit Utilization(double measured) : peak_(measured) {}

  // The MFU of a step that did the model's arithmetic at that rate.
  double of_step(double flops_per_second) {
    peak_ = std::max(peak_, flops_per_second);
    return flops_per_second / peak_;
  }

 private:
  double peak_;
};

}  // namespace llmtrain
