// SPDX-License-Identifier: Apache-2.0
#include "core/base/fault_point.h"

namespace llmtrain {

void fault_point(FaultPlace, std::int64_t, std::int64_t, std::span<std::byte>) {}

bool has_fault(FaultPlace, std::int64_t, std::int64_t) { return false; }

bool has_grown(std::int64_t, std::int64_t) { return false; }

}  // namespace llmtrain
