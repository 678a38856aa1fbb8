// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace llmtrain {

// The bundled profile (recipes/clusters) of a GPU by its driver's name for it, such as "NVIDIA H100 80GB HBM3" or
// "Tesla V100-SXM2-16GB"; empty for one of a kind that nobody has profiled. Other builds of a kind have its profile.
std::string_view gpu_profile(std::string_view model);

// Stands in for the profile of GPUs that have none.
constexpr std::string_view assumed_gpu_profile = "h100-sxm-80gb";

}  // namespace llmtrain
