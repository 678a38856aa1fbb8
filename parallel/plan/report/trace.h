// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "parallel/plan/report/plan.h"
#include "parallel/plan/report/trace_writer.h"

namespace llmtrain {

// The trace threads of a rank's instructions: compute, data parallel, sends, receives.
void name_trace_threads(TraceWriter& writer, std::int32_t rank);
std::int32_t trace_thread(Operation operation);

// Writes the plan's timeline, which must have been recorded, and its memory over time for Perfetto (trace_writer.h):
// one process per pipeline rank, with the threads compute, data parallel, sends and receives. Throws
// Error(cannot_write).
void write_trace(const std::filesystem::path& file, const Plan& plan);

}  // namespace llmtrain
