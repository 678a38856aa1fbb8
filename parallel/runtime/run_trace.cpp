// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/run_trace.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "parallel/plan/report/trace.h"

namespace llmtrain {
namespace {

constexpr std::size_t kept_steps = 3;  // bounds memory and the file; the last steps are past any warm-up

// One rank's step as exchanged between ranks: the step's number, then the start of each instruction and the end of the
// last.
struct TracedStep {
  const double* values = nullptr;

  std::int32_t number() const { return static_cast<std::int32_t>(values[0]); }
  double start(std::size_t instruction) const { return values[1 + instruction]; }
};

std::size_t most_instructions(const Schedule& schedule) {
  std::size_t most = 0;
  for (const RankSchedule& rank : schedule.ranks) most = std::max(most, rank.instructions.size());
  return most;
}

// A rank's identity in the file.
struct TracedRank {
  std::int32_t rank = 0;
  std::int32_t lane = 0;
  std::int32_t pipeline = 0;
};

void write_step(TraceWriter& writer, const TracedRank& rank, const RankSchedule& schedule, const TracedStep& step,
                double origin) {
  for (std::size_t i = 0; i < schedule.instructions.size(); ++i) {
    const Instruction& instruction = schedule.instructions[i];
    writer.write({.rank = rank.rank,
                  .step = step.number(),
                  .lane = rank.lane,
                  .instruction = instruction,
                  .start_seconds = step.start(i) - origin,
                  .end_seconds = step.start(i + 1) - origin});
  }
}

}  // namespace

RunTrace::RunTrace(Trainer& trainer) : trainer_(trainer), moments_(trainer.model().device()) {
  // A barrier: clocks of all ranks start within the time of one small exchange.
  trainer_.model().groups().exchange(std::array{0.0});
  moments_.start_from_now();
  trainer_.runner().set_observer([this](const Instruction&) { moments_.note(); });
}

RunTrace::~RunTrace() { trainer_.runner().set_observer({}); }

void RunTrace::end_step() {
  moments_.note();
  steps_.push_back({trainer_.steps_done(), moments_.take()});
  if (steps_.size() > kept_steps) steps_.pop_front();
}

// Padded to the same width on every rank, whatever its schedule: exchange() requires equal counts.
std::vector<double> RunTrace::packed(std::size_t width) const {
  std::vector<double> values;
  for (const Step& step : steps_) {
    values.push_back(static_cast<double>(step.number));
    values.insert(values.end(), step.starts.begin(), step.starts.end());
    values.resize((values.size() + width - 1) / width * width, 0);
  }
  return values;
}

void RunTrace::write(const std::filesystem::path& file) const {
  const RankGroups& groups = trainer_.model().groups();
  const Schedule& schedule = trainer_.model().layout().schedule();
  const std::size_t width = most_instructions(schedule) + 2;
  const std::vector<double> all = groups.exchange(packed(width));
  if (!groups.is_first()) return;
  const auto ranks = static_cast<std::size_t>(groups.communicator().size());
  const std::size_t each = all.size() / ranks;
  const std::size_t lanes = ranks / schedule.ranks.size();
  // The earliest start of any rank becomes time zero.
  double origin = all[1];
  for (std::size_t rank = 0; rank < ranks; ++rank) origin = std::min(origin, all[rank * each + 1]);
  TraceWriter writer(file, "llmtrain run: " + trainer_.recipe().name);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const TracedRank traced{static_cast<std::int32_t>(rank), static_cast<std::int32_t>(rank % lanes),
                            static_cast<std::int32_t>(rank / lanes)};
    const std::string number = std::to_string(rank);
    writer.name_rank(traced.rank, "rank " + number + ", pipeline rank " + std::to_string(traced.pipeline));
    for (std::size_t at = rank * each; at < (rank + 1) * each; at += width)
      write_step(writer, traced, schedule.ranks[rank / lanes], {all.data() + at}, origin);
  }
  writer.close();
}

}  // namespace llmtrain
