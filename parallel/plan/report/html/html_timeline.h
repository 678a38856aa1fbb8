// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "parallel/plan/report/html/time_axis.h"
#include "parallel/plan/report/html/timeline_selection.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {

// The schedule as SVG in a <section>: one row per selected rank with lanes for passes, data-parallel collectives and
// transfers; and as JSON for the page's script, which describes the instruction under the pointer.
std::string timeline_section(const Plan& plan, const TimelineSelection& selection, const TimeAxis& axis);

}  // namespace llmtrain
