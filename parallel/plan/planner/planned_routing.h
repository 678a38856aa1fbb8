// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "parallel/layout/layout.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {

// None where tokens go as their routers say, which a plan takes as even.
std::optional<PlannedRouting> planned_routing(const Layout& layout);

}  // namespace llmtrain
