// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/file.h"
#include "parallel/plan/report/plan.h"
#include "parallel/plan/simulator/step_memory.h"
#include "parallel/schedule/schedule.h"

namespace llmtrain {

// One instruction as it ran, planned or measured. Times are seconds from the trace's start.
struct TraceRecord {
  std::int32_t rank = 0;
  std::int32_t step = 0;  // distinguishes transfers of several steps
  std::int32_t lane = 0;  // distinguishes transfers of several copies of the model
  Instruction instruction;
  double start_seconds = 0;
  double end_seconds = 0;
};

// Writes a timeline in the trace-event format of Chrome and Perfetto (ui.perfetto.dev opens it): one process per rank,
// with the threads compute, data parallel, sends and receives, one complete event per record with stage, micro-batch
// and the instruction's text as its arguments, an arrow from each send to its receive, and counters for memory. Records
// may come in any order, those of one rank and thread do not overlap; they are streamed to the file, so memory does not
// grow with their number. Throws Error(cannot_write) if the file cannot be written; a file that was not closed is
// removed.
class TraceWriter {
 public:
  // `title` goes into the file's metadata.
  TraceWriter(const std::filesystem::path& file, std::string_view title);

  // Names the rank's process and its threads.
  void name_rank(std::int32_t rank, std::string_view name);
  void write(const TraceRecord& record);
  // Bytes that the rank holds from `seconds` on, by category.
  void write_memory(std::int32_t rank, double seconds, const MemoryBytes& bytes);
  // Completes the file and flushes it to disk.
  void close();

 private:
  void write_arrow(const TraceRecord& record, std::int64_t start, std::int64_t end);
  void begin_event();
  void flush_when_full();

  FileWriter file_;
  std::string text_;
  bool is_first_ = true;
};

// Writes the plan's timeline, which must have been recorded, and its memory over time with one process per pipeline
// rank. Throws Error(cannot_write).
void write_trace(const std::filesystem::path& file, const Plan& plan);

}  // namespace llmtrain
