// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/training/run_trace.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "parallel/plan/report/html/report_html.h"
#include "parallel/plan/report/trace.h"

namespace llmtrain {
namespace {

constexpr std::size_t kept_steps = 3;  // bounds memory and the file; the last steps are past any warm-up

std::size_t most_instructions(const Schedule& schedule) {
  std::size_t most = 0;
  for (const RankSchedule& rank : schedule.ranks) most = std::max(most, rank.instructions.size());
  return most;
}

// Writes one step of a rank, as RunTrace keeps it. `record` says which rank it is.
void write_step(TraceWriter& writer, TraceRecord record, const RankSchedule& schedule, const double* step,
                double origin) {
  record.step = static_cast<std::int32_t>(step[0]);
  const double* start = step + 1;
  for (const Instruction& instruction : schedule.instructions) {
    record.instruction = instruction;
    record.start_seconds = start[0] - origin;
    record.end_seconds = start[1] - origin;
    writer.write(record);
    ++start;
  }
}

Stream stream_of(Operation operation) {
  switch (operation) {
    case Operation::gather_weights:
    case Operation::reduce_gradients:
      return Stream::data;
    case Operation::send_activation:
    case Operation::send_gradient:
    case Operation::receive_activation:
    case Operation::receive_gradient:
      return Stream::transfer;
    case Operation::forward:
    case Operation::backward:
    case Operation::free_weights:
    case Operation::evict_gradients:
    case Operation::optimizer_step:
      break;
  }
  return Stream::compute;
}

// Adds one step of a rank, as RunTrace keeps it, to a timeline.
void add_step(std::vector<TimelineEntry>& timeline, std::int32_t pipeline, const RankSchedule& schedule,
              const double* step, double origin) {
  for (std::size_t i = 0; i < schedule.instructions.size(); ++i)
    timeline.push_back({.rank = pipeline,
                        .instruction = static_cast<std::int32_t>(i),
                        .stream = stream_of(schedule.instructions[i].operation),
                        .start_seconds = step[1 + i] - origin,
                        .end_seconds = step[2 + i] - origin});
}

}  // namespace

RunTrace::RunTrace(Trainer& trainer, std::shared_ptr<const Layout> layout)
    : trainer_(trainer),
      layout_(std::move(layout)),
      moments_(trainer.model().device()),
      width_(most_instructions(layout_->schedule()) + 2) {
  // A barrier: clocks of all ranks start within the time of one small exchange.
  trainer_.model().groups().exchange(std::array{0.0});
  moments_.start_from_now();
  trainer_.runner().set_observer([this](const Instruction&) { moments_.note(); });
}

RunTrace::~RunTrace() { trainer_.runner().set_observer({}); }

void RunTrace::end_step() {
  moments_.note();
  std::vector<double> step = moments_.take();
  step.insert(step.begin(), static_cast<double>(trainer_.steps_done()));
  // Equally long on all ranks, whose schedules differ in length: the exchange in write() takes equal parts.
  step.resize(width_, 0);
  steps_.push_back(std::move(step));
  if (steps_.size() > kept_steps) steps_.pop_front();
}

std::shared_ptr<const Layout> RunTrace::layout_of(const std::vector<double>& step) const {
  const std::int64_t batch = trainer_.runner().shapes().at(static_cast<std::int64_t>(step.front()) - 1).global_batch;
  if (batch == layout_->recipe().batch.global) return layout_;
  return std::make_shared<const Layout>(layout_->of_batch(batch));
}

Html RunTrace::write(const std::filesystem::path& file) const {
  const RankGroups& groups = trainer_.model().groups();
  std::vector<double> own;
  for (const std::vector<double>& step : steps_) own.insert(own.end(), step.begin(), step.end());
  const std::vector<double> all = groups.exchange(own);
  if (!groups.is_first()) return {};
  const auto ranks = static_cast<std::size_t>(groups.communicator().size());
  const std::size_t each = all.size() / ranks;
  const auto pipelines = static_cast<std::size_t>(layout_->mesh().pipeline);
  const std::size_t lanes = ranks / pipelines;
  std::vector<Schedule> schedules;  // of the steps
  for (const std::vector<double>& step : steps_) schedules.push_back(layout_of(step)->schedule());
  // The earliest start of any rank becomes time zero.
  double origin = all[1];
  for (std::size_t rank = 0; rank < ranks; ++rank) origin = std::min(origin, all[rank * each + 1]);
  TraceWriter writer(file, "llmtrain run: " + trainer_.recipe().name);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    TraceRecord record;
    record.rank = static_cast<std::int32_t>(rank);
    record.lane = static_cast<std::int32_t>(rank % lanes);
    const std::size_t pipeline = rank / lanes;
    writer.name_rank(record.rank, fmt::format("rank {}, pipeline rank {}", rank, pipeline));
    for (std::size_t step = 0; step < schedules.size(); ++step)
      write_step(writer, record, schedules[step].ranks[pipeline], all.data() + rank * each + step * width_, origin);
  }
  writer.close();
  return last_step(all, each, lanes);
}

// `all`: of each rank `each` numbers; `lanes` ranks share a pipeline rank.
Html RunTrace::last_step(const std::vector<double>& all, std::size_t each, std::size_t lanes) const {
  const std::shared_ptr<const Layout> layout = layout_of(steps_.back());
  const Schedule& schedule = layout->schedule();
  const auto step_of = [&](std::size_t pipeline) { return all.data() + (pipeline * lanes + 1) * each - width_; };
  double start = step_of(0)[1], end = start;
  for (std::size_t pipeline = 0; pipeline < schedule.ranks.size(); ++pipeline) {
    start = std::min(start, step_of(pipeline)[1]);
    end = std::max(end, step_of(pipeline)[1 + schedule.ranks[pipeline].instructions.size()]);
  }
  std::vector<TimelineEntry> timeline;
  for (std::size_t pipeline = 0; pipeline < schedule.ranks.size(); ++pipeline)
    add_step(timeline, static_cast<std::int32_t>(pipeline), schedule.ranks[pipeline], step_of(pipeline), start);
  return measured_step_section(layout, std::move(timeline), end - start);
}

}  // namespace llmtrain
