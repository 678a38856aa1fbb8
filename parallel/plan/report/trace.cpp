// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/trace.h"

#include <array>
#include <string>
#include <string_view>

namespace llmtrain {
namespace {

// Links are full duplex and events of a trace thread must not overlap, so sends and receives have one thread each.
constexpr std::array<std::string_view, 4> thread_names{"compute", "data parallel", "sends", "receives"};

void write_names(TraceWriter& writer, const Plan& plan) {
  for (std::size_t pipeline_rank = 0; pipeline_rank < plan.layout->schedule().ranks.size(); ++pipeline_rank) {
    const auto rank = static_cast<std::int32_t>(pipeline_rank);
    writer.name_rank(rank, "pipeline rank " + std::to_string(rank));
    name_trace_threads(writer, rank);
  }
}

}  // namespace

void name_trace_threads(TraceWriter& writer, std::int32_t rank) {
  for (std::size_t thread = 0; thread < thread_names.size(); ++thread)
    writer.name_stream(rank, static_cast<std::int32_t>(thread), thread_names[thread]);
}

std::int32_t trace_thread(Operation operation) {
  switch (operation) {
    case Operation::forward:
    case Operation::backward:
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

void write_trace(const std::filesystem::path& file, const Plan& plan) {
  TraceWriter writer(file, "llmtrain plan: " + plan.report.recipe.name);
  write_names(writer, plan);
  for (const TimelineEntry& entry : plan.simulation.timeline) {
    const auto& instructions = plan.layout->schedule().ranks.at(static_cast<std::size_t>(entry.rank)).instructions;
    const Instruction& instruction = instructions.at(static_cast<std::size_t>(entry.instruction));
    writer.write({.rank = entry.rank,
                  .stream = trace_thread(instruction.operation),
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
