// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain {

// 1, 2 or 5 times a power of ten, not less than `least`: the distance of an axis' ticks.
double round_step(double least);

}  // namespace llmtrain
