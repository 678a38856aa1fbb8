// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/recipe/recipe.h"
#include "parallel/run/report/run_page.h"

namespace llmtrain {

// The newest figures of a run in Prometheus' text format (version 0.0.4), as node_exporter's textfile collector reads
// it: one sample per line, with the run's name as a label and of the loss's terms theirs, where there are several.
// Empty before the first row.
std::string prometheus_text(const Recipe& recipe, const RunProgress& progress, RunState state);

}  // namespace llmtrain
