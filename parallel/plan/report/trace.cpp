// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/trace.h"

#include <spdlog/fmt/compile.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

namespace llmtrain {
namespace {

// Large writes, because a trace may have millions of short events.
constexpr std::size_t flush_bytes = 1U << 20U;

// Integer nanoseconds, so that the end of one event and the start of the next are exactly equal.
std::int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// A time that is written in microseconds, the unit of the trace-event format.
struct Microseconds {
  std::int64_t nanoseconds = 0;
};

void append(std::string& text, Microseconds time) {
  fmt::format_to(std::back_inserter(text), FMT_COMPILE("{}.{:03}"), time.nanoseconds / 1000, time.nanoseconds % 1000);
}

// Links are full duplex and events of a trace thread must not overlap, so sends and receives have one thread each.
struct TraceThread {
  std::string_view name;
  std::string_view category;  // of its events
};
constexpr std::array<TraceThread, 4> threads{
    {{"compute", "compute"}, {"data parallel", "data"}, {"sends", "transfer"}, {"receives", "transfer"}}};

// The index of the operation's thread.
std::size_t thread_of(Operation operation) {
  switch (operation) {
    case Operation::forward:
    case Operation::backward:
    case Operation::evict_gradients:
    case Operation::optimizer_step:
      return 0;
    case Operation::send_activation:
    case Operation::send_gradient:
      return 2;
    case Operation::receive_activation:
    case Operation::receive_gradient:
      return 3;
    case Operation::gather_weights:
    case Operation::free_weights:
    case Operation::reduce_gradients:
      break;
  }
  return 1;
}

std::string quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

TraceWriter::TraceWriter(const std::filesystem::path& file, std::string_view title) : file_(file) {
  text_.reserve(flush_bytes + 4096);
  text_ = R"({"displayTimeUnit":"ms","otherData":{"title":)" + quoted(title) + "},\"traceEvents\":[";
}

void TraceWriter::begin_event() {
  text_ += is_first_ ? "\n" : ",\n";
  is_first_ = false;
}

void TraceWriter::flush_when_full() {
  if (text_.size() < flush_bytes) return;
  file_.write(text_.data(), text_.size());
  text_.clear();
}

void TraceWriter::name_rank(std::int32_t rank, std::string_view name) {
  begin_event();
  text_ +=
      fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"tid":0,"args":{{"name":{}}}}},)", rank, quoted(name));
  text_ +=
      fmt::format(R"({{"ph":"M","name":"process_sort_index","pid":{0},"tid":0,"args":{{"sort_index":{0}}}}})", rank);
  for (std::size_t thread = 0; thread < threads.size(); ++thread) {
    begin_event();
    text_ += fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}},)", rank, thread,
                         quoted(threads[thread].name));
    text_ += fmt::format(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
                         rank, thread, thread);
  }
  flush_when_full();
}

void TraceWriter::write(const TraceRecord& record) {
  const Instruction& instruction = record.instruction;
  const std::int64_t start = nanoseconds(record.start_seconds);
  // Rounding must not produce a negative duration.
  const std::int64_t end = std::max(start, nanoseconds(record.end_seconds));
  const std::string line = to_text(instruction);
  const std::size_t thread = thread_of(instruction.operation);
  const auto out = std::back_inserter(text_);
  begin_event();
  fmt::format_to(out, FMT_COMPILE(R"({{"ph":"X","pid":{},"tid":{},"ts":)"), record.rank, thread);
  append(text_, {start});
  // Complete events (ph X) hold start and duration: half as many events as with begin and end.
  text_ += ",\"dur\":";
  append(text_, {end - start});
  fmt::format_to(out, FMT_COMPILE(R"(,"cat":"{}","name":"{}","args":{{)"), threads[thread].category, line);
  // Fields that the instruction does not have are omitted rather than written as -1.
  if (instruction.stage >= 0) fmt::format_to(out, FMT_COMPILE(R"("stage":{},)"), instruction.stage);
  if (instruction.micro >= 0) fmt::format_to(out, FMT_COMPILE(R"("micro":{},)"), instruction.micro);
  if (instruction.peer >= 0) fmt::format_to(out, FMT_COMPILE(R"("peer":{},)"), instruction.peer);
  fmt::format_to(out, FMT_COMPILE(R"("step":{},"instruction":"{}"}}}})"), record.step, line);
  write_arrow(record, start, end);
  flush_when_full();
}

void TraceWriter::write_arrow(const TraceRecord& record, std::int64_t start, std::int64_t end) {
  const auto is = [&](Operation operation) { return record.instruction.operation == operation; };
  const bool starts = is(Operation::send_activation) || is(Operation::send_gradient);
  const bool gradient = is(Operation::send_gradient) || is(Operation::receive_gradient);
  if (!starts && !gradient && !is(Operation::receive_activation)) return;
  // The boundary follows the stage of this number: activations go to the next stage and come from the previous one,
  // gradients the other way round.
  const std::int32_t boundary = record.instruction.stage - (starts == gradient ? 1 : 0);
  begin_event();
  // Viewers bind an arrow to the event that encloses its time: the start of a send, just before the end of a receive.
  const std::int64_t time = starts ? start : std::max(start, end - 1);
  fmt::format_to(
      std::back_inserter(text_),
      FMT_COMPILE(R"({{"ph":"{}","id":"{}-{}-{}-{}-{}","cat":"transfer","name":"{}","pid":{},"tid":{}{},"ts":)"),
      starts ? 's' : 'f', record.lane, record.step, gradient ? 'g' : 'a', boundary, record.instruction.micro,
      gradient ? "gradient" : "activation", record.rank, thread_of(record.instruction.operation),
      starts ? "" : R"(,"bp":"e")");
  append(text_, {time});
  text_ += '}';
}

void TraceWriter::write_memory(std::int32_t rank, double seconds, const MemoryBytes& bytes) {
  begin_event();
  fmt::format_to(std::back_inserter(text_), FMT_COMPILE(R"({{"ph":"C","name":"memory","pid":{},"tid":0,"ts":)"), rank);
  append(text_, {nanoseconds(seconds)});
  text_ += ",\"args\":{";
  for (const MemoryName& name : memory_names) {
    if (name.category != memory_names.front().category) text_ += ',';
    fmt::format_to(std::back_inserter(text_), FMT_COMPILE(R"("{}":{})"), name.label,
                   std::llround(bytes[name.category]));
  }
  text_ += "}}";
  flush_when_full();
}

void TraceWriter::close() {
  text_ += "\n]}\n";
  file_.write(text_.data(), text_.size());
  file_.close();
}

void write_trace(const std::filesystem::path& file, const Plan& plan) {
  TraceWriter writer(file, "llmtrain plan: " + plan.report.recipe.name);
  for (std::size_t index = 0; index < plan.simulation.ranks.size(); ++index) {
    const auto rank = static_cast<std::int32_t>(index);
    writer.name_rank(rank, "pipeline rank " + std::to_string(rank));
  }
  for (const TimelineEntry& entry : plan.simulation.timeline) {
    const auto& instructions = plan.layout->schedule().ranks.at(static_cast<std::size_t>(entry.rank)).instructions;
    const Instruction& instruction = instructions.at(static_cast<std::size_t>(entry.instruction));
    writer.write({.rank = entry.rank,
                  .instruction = instruction,
                  .start_seconds = entry.start_seconds,
                  .end_seconds = entry.end_seconds});
  }
  for (std::size_t rank = 0; rank < plan.simulation.ranks.size(); ++rank)
    for (const MemorySample& sample : plan.simulation.ranks[rank].memory)
      writer.write_memory(static_cast<std::int32_t>(rank), sample.seconds, sample.bytes);
  writer.close();
}

}  // namespace llmtrain
