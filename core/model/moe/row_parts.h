// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/moe/expert_rows.h"

namespace llmtrain {

// The first of `rows` rows that is in a part, of `parts` as equal as possible; those before it are in earlier parts.
constexpr std::int64_t part_begin(std::int64_t rows, std::int64_t part, std::int64_t parts) {
  return rows * part / parts;
}

// The map with its rows in another order: cut into parts, of which each has an equal share of every expert's rows
// (Hwang et al., arXiv 2206.03382, section 3.3, cut the capacity so), by expert within a part. Its offsets are of the
// experts of the first part, then of those of the second, …; `ends` are none. Needs the map's offsets if there is more
// than one part.
kernels::ExpertRows in_parts(const kernels::ExpertRows& map, std::int64_t parts);

}  // namespace llmtrain
