// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/simulator/memory_ledger.h"

#include <algorithm>
#include <utility>

namespace llmtrain {

MemoryLedger::MemoryLedger(const ScheduleShape& shape, const StepMemory& memory, std::int32_t rank, Timeline timeline,
                           RankSimulation& result)
    : shape_(shape),
      memory_(memory),
      timeline_(timeline),
      now_(memory.rank),
      is_gathered_(memory.stages.size(), false),
      is_head_alone_(memory.stages.size(), false),
      backward_starts_(memory.stages.size(), -1),
      result_(result) {
  // Stage s lives on pipeline rank s mod pipeline.
  for (std::int32_t stage = rank; stage < shape.stages(); stage += shape.pipeline) {
    const StageMemory& of_stage = memory.stages[static_cast<std::size_t>(stage)];
    for (std::size_t i = 0; i < memory_categories; ++i) now_.bytes[i] += of_stage.resident.bytes[i];
    add_on_host(of_stage.host_resident.total());
  }
  total_ = now_.total();
  result_.high_water = now_;
  result_.peak_bytes = total_;
  if (timeline == Timeline::record) result_.memory.push_back({0, now_});
}

void MemoryLedger::record(double seconds, MemoryChange change, std::int32_t stage, std::int32_t instruction) {
  // A pass reports its end when it starts: events wait in the heap until the clock reaches them.
  ahead_.push_back({seconds, stage, instruction, change});
  std::push_heap(ahead_.begin(), ahead_.end(), is_later);
}

void MemoryLedger::advance(double seconds) {
  // Strictly before: other ranks may still report changes of this very instant, which must be sorted among these.
  while (!ahead_.empty() && ahead_.front().seconds < seconds) count_next();
}

void MemoryLedger::finish() {
  while (!ahead_.empty()) count_next();
  result_.final_bytes = now_;
}

void MemoryLedger::count_next() {
  std::pop_heap(ahead_.begin(), ahead_.end(), is_later);
  const Event event = ahead_.back();
  ahead_.pop_back();
  apply(event);
  note_peak(event);
  if (timeline_ == Timeline::leave_out) return;
  // One sample per instant, after all of its changes.
  if (result_.memory.back().seconds < event.seconds) result_.memory.push_back({event.seconds, {}});
  result_.memory.back().bytes = now_;
}

void MemoryLedger::add(MemoryCategory category, double bytes) {
  double& now = now_[category];
  now += bytes;
  total_ += bytes;
  result_.high_water[category] = std::max(result_.high_water[category], now);
}

void MemoryLedger::add_on_host(double bytes) {
  on_host_ += bytes;
  result_.host_peak_bytes = std::max(result_.host_peak_bytes, on_host_);
}

// Of so many micro-batches more.
void MemoryLedger::keep_activations(const StageMemory& stage, int micro_batches) {
  add(MemoryCategory::activations, micro_batches * stage.saved_activations);
  add_on_host(micro_batches * stage.host_activations);
}

void MemoryLedger::note_peak(const Event& event) {
  if (total_ <= result_.peak_bytes) return;
  result_.peak_bytes = total_;
  // The sender reports an arrival, which is no instruction of this rank: name the pass that runs meanwhile.
  result_.peak_instruction = event.change == MemoryChange::tensor_arrives ? running_ : event.instruction;
}

void MemoryLedger::hold_for_a_moment(const Event& event, MemoryCategory category, double bytes) {
  if (bytes == 0) return;
  add(category, bytes);
  note_peak(event);
  add(category, -bytes);
}

// Slices that have arrived are joined before the pass that waits for them takes memory of its own, but beside those of
// the next stage, whose gather begins when the link is free, which is this instant.
void MemoryLedger::start_pass(const Event& event) {
  running_ = event.instruction;
  const auto stage = static_cast<std::size_t>(event.stage);
  const double joined = memory_.stages[stage].joined_weights;
  if (is_gathered_[stage] && joined > 0) {
    double gathered = 0;
    for (const Event& other : ahead_)
      if (other.seconds == event.seconds && other.change == MemoryChange::weights_are_gathered)
        gathered += memory_.stages[static_cast<std::size_t>(other.stage)].gathered_weights;
    // Those of the slices are not there yet where the head alone has begun its stage's gradients.
    const double early = is_head_alone_[stage] ? memory_.stages[stage].packed_gradients : 0;
    add(MemoryCategory::gradients, -early);
    hold_for_a_moment(event, MemoryCategory::weights, joined + gathered);
    add(MemoryCategory::gradients, early);
  }
  is_gathered_[stage] = false;
  if (event.change != MemoryChange::backward_starts) return;
  is_head_alone_[stage] = false;
  backward_starts_[stage] = event.seconds;
}

void MemoryLedger::note_head(const Event& event) {
  const auto stage = static_cast<std::size_t>(event.stage);
  is_head_alone_[stage] = backward_starts_[stage] != event.seconds;
}

// A received tensor is counted from its arrival until its pass ends; a sent one from its pass's start until it is sent.
void MemoryLedger::apply(const Event& event) {
  if (event.change == MemoryChange::optimizer_starts) return add(MemoryCategory::buffers, memory_.optimizer_workspace);
  if (event.change == MemoryChange::optimizer_ends) {
    add(MemoryCategory::gradients, -std::exchange(wide_, 0));
    return add(MemoryCategory::buffers, -memory_.optimizer_workspace);
  }
  const StageMemory& stage = memory_.stages[static_cast<std::size_t>(event.stage)];
  // Of a tensor that the stage exchanges with its neighbour; 0 where there is none on another rank.
  const bool has_neighbours = shape_.pipeline > 1;
  const double with_previous = has_neighbours && event.stage > 0 ? stage.boundary_activation : 0;
  const double with_next = has_neighbours && event.stage + 1 < shape_.stages() ? stage.boundary_activation : 0;
  switch (event.change) {
    case MemoryChange::tensor_arrives:
      return add(MemoryCategory::communication, stage.boundary_activation);
    case MemoryChange::tensor_is_sent:
      return add(MemoryCategory::communication, -stage.boundary_activation);
    case MemoryChange::weights_are_gathered:
      is_gathered_[static_cast<std::size_t>(event.stage)] = true;
      return add(MemoryCategory::weights, stage.gathered_weights);
    case MemoryChange::weights_are_freed:
      return add(MemoryCategory::weights, -stage.gathered_weights);
    case MemoryChange::gradients_begin:
      note_head(event);
      return add(MemoryCategory::gradients, stage.unreduced_gradients);
    case MemoryChange::gradients_are_reduced:
      return add(MemoryCategory::gradients, -stage.unreduced_gradients - stage.cast_gradients);
    case MemoryChange::partial_gradients_begin:
      return add(MemoryCategory::gradients, stage.partial_gradients);
    case MemoryChange::partial_gradients_end:
      return add(MemoryCategory::gradients, -stage.partial_gradients);
    case MemoryChange::gradients_are_packed:
      return hold_for_a_moment(event, MemoryCategory::gradients, stage.packed_gradients);
    case MemoryChange::accumulation_begins:
      return add(MemoryCategory::gradients, stage.accumulated_gradients);
    case MemoryChange::gradients_are_cast:
      wide_ += stage.wide_gradients;
      return add(MemoryCategory::gradients, stage.cast_gradients + stage.wide_gradients);
    case MemoryChange::accumulation_ends:
      return add(MemoryCategory::gradients, -stage.accumulated_gradients);
    case MemoryChange::forward_starts:
      start_pass(event);
      keep_activations(stage, 1);
      add(MemoryCategory::buffers, stage.forward_workspace);
      return add(MemoryCategory::communication, with_next);
    case MemoryChange::forward_ends:
      add(MemoryCategory::buffers, -stage.forward_workspace);
      return add(MemoryCategory::communication, -with_previous);
    case MemoryChange::backward_starts:
      start_pass(event);
      add(MemoryCategory::buffers, stage.backward_workspace);
      return add(MemoryCategory::communication, with_previous);
    case MemoryChange::backward_ends:
      keep_activations(stage, -1);
      add(MemoryCategory::buffers, -stage.backward_workspace);
      return add(MemoryCategory::communication, -with_next);
    case MemoryChange::optimizer_starts:
    case MemoryChange::optimizer_ends:
      return;  // of the whole rank, above
  }
}

}  // namespace llmtrain
