// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "parallel/plan/report/plan.h"

namespace llmtrain {

// Writes the plan's timeline, which must have been recorded, and its memory over time for Perfetto (trace_writer.h):
// one process for each pipeline rank, with the threads compute, data parallel, sends and receives. Throws
// Error(cannot_write).
void write_trace(const std::filesystem::path& file, const Plan& plan);

}  // namespace llmtrain
