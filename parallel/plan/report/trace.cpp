// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/trace.h"

#include <array>
#include <string>
#include <string_view>

#include "parallel/plan/report/trace_writer.h"

namespace llmtrain {
namespace {

// Links take both directions at once, so sends and receives have a thread each.
constexpr std::array<std::string_view, 4> thread_names{"compute", "data parallel", "sends", "receives"};

std::int32_t thread_of(Stream stream, Operation operation) {
  const bool receives = operation == Operation::receive_activation || operation == Operation::receive_gradient;
  return static_cast<std::int32_t>(stream) + (stream == Stream::transfer && receives ? 1 : 0);
}

void write_names(TraceWriter& writer, const Plan& plan) {
  for (std::size_t pipeline_rank = 0; pipeline_rank < plan.schedule.ranks.size(); ++pipeline_rank) {
    const auto rank = static_cast<std::int32_t>(pipeline_rank);
    writer.name_rank(rank, "pipeline rank " + std::to_string(rank));
    for (std::size_t stream = 0; stream < thread_names.size(); ++stream)
      writer.name_stream(rank, static_cast<std::int32_t>(stream), thread_names[stream]);
  }
}

}  // namespace

void write_trace(const std::filesystem::path& file, const Plan& plan) {
  TraceWriter writer(file, "llmtrain plan: " + plan.report.recipe.name);
  write_names(writer, plan);
  for (const TimelineEntry& entry : plan.simulation.timeline) {
    const auto& instructions = plan.schedule.ranks.at(static_cast<std::size_t>(entry.rank)).instructions;
    const Instruction& instruction = instructions.at(static_cast<std::size_t>(entry.instruction));
    writer.write({.rank = entry.rank,
                  .stream = thread_of(entry.stream, instruction.operation),
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
