// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "parallel/plan/report/plan.h"

namespace llmtrain {

// The plan as one page that needs nothing else: headline figures, where a step's time goes, warnings and suggestions,
// the schedule of each rank, memory over time, memory per rank, communication, the recipe. Light or dark as the reader
// likes it, and it prints. Less than 2 MB: of a huge timeline the page shows a part and says what is left out. Without
// a recorded timeline schedule and memory over time are not there.
std::string report_html(const Plan& plan);

}  // namespace llmtrain
