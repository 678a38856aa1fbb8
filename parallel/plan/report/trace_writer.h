// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "core/base/file.h"
#include "parallel/plan/simulator/step_memory.h"
#include "parallel/schedule/schedule.h"

namespace llmtrain {

// One instruction as it ran, planned or measured. Times are seconds from the trace's start.
struct TraceRecord {
  std::int32_t rank = 0;
  std::int32_t stream = 0;  // records of one rank and stream do not overlap
  std::int32_t step = 0;    // distinguishes transfers of several steps
  std::int32_t lane = 0;    // distinguishes transfers of several copies of the model
  Instruction instruction;
  double start_seconds = 0;
  double end_seconds = 0;
};

// Writes a timeline in the trace-event format of Chrome and Perfetto (ui.perfetto.dev opens it): one process per rank,
// one thread per stream, one complete event per record with stage, micro-batch and the instruction's text as its
// arguments, an arrow from each send to its receive, and counters for memory. Records may come in any order and are
// streamed to the file, so memory does not grow with their number. Throws Error(cannot_write) if the file cannot be
// written; a file that was not closed is removed.
class TraceWriter {
 public:
  // `title` goes into the file's metadata.
  TraceWriter(const std::filesystem::path& file, std::string_view title);

  void name_rank(std::int32_t rank, std::string_view name);
  void name_stream(std::int32_t rank, std::int32_t stream, std::string_view name);
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

}  // namespace llmtrain
