// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "parallel/plan/policies/policy_prices.h"
#include "parallel/plan/report/text_layout.h"

namespace llmtrain {

// A row per policy, and the notes. Newline-terminated lines of at most page_width columns.
std::string policies_text(const PolicyTable& table, const TextStyle& style);

// {"limit_bytes", "unlimited_step_seconds", "unlimited_peak_bytes", "policies": [{"policy": word, "fits",
// "least_bytes", and where it fits, else null: "schedule", "loops", "update": "device" or "host", "early_update",
// "eviction", "prefetches", "returns", "peak_bytes", "fetched_bytes", "written_bytes", "step_seconds",
// "exposed_copy_seconds"}], "notes": []}. Indented by two spaces, with a trailing newline.
std::string policies_json(const PolicyTable& table);

}  // namespace llmtrain
