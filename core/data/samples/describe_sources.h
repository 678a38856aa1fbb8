// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "core/data/samples/dataset.h"

namespace llmtrain {

// What the dataset has read of each of its sources, as a list: {"path", "files", "samples", "tokens", "bad_lines": what
// BadLines::json() writes}, and of conversations also "documents", "truncated" (of these), and "too_long" and
// "no_answer", which were left out.
nlohmann::ordered_json describe_sources(const Dataset& dataset, const std::vector<DataSource>& sources);

}  // namespace llmtrain
