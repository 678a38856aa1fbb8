// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/page/text_layout.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {

// "143 TFLOP/s", "1013 TFLOP/s": three significant digits, without an exponent.
std::string tflops_text(double tflops);

// What a ratio changes, as "+12 %" or "-3.4 %", and "±0 %" below what the decimals show.
std::string change_text(double ratio, int decimals);

// "12 failures": of a run, as far as they can be expected.
std::string failures_text(double failures);

// ", experts: expert 4 × expert_tensor 2 × joined slices 2 × copies 8" after the other axes of a mesh, without those of
// one rank, and whether a run tries other splits. Empty where the tensor ranks alone split experts, and in a model
// without them.
std::string expert_mesh_text(const PlanReport& report);

// "1.2M EUR"; the run has a price.
std::string price_text(const PlannedRun& run);

// "678.2k device-hours", and their price if there is one.
std::string cost_text(const PlannedRun& run);

}  // namespace llmtrain
