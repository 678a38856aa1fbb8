// SPDX-License-Identifier: Apache-2.0
#include "core/base/fault_point.h"

namespace llmtrain {

void fault_point(FaultPlace, std::int64_t, std::int64_t, std::span<std::byte>) {}

}  // namespace llmtrain
