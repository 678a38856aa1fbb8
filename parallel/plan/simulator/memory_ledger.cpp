// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/simulator/memory_ledger.h"

#include <algorithm>
#include <utility>

namespace llmtrain {

MemoryLedger::MemoryLedger(const ScheduleShape& shape, const StepMemory& memory, std::int32_t rank, Timeline timeline,
                           RankSimulation& result)
    : pipeline_(shape.pipeline),
      turns_(static_cast<std::size_t>(shape.loops)),
      timeline_(timeline),
      rows_(memory_events * turns_),
      result_(result) {
  std::ranges::copy(memory.rank.bytes, now_.begin());
  // Stage s lives on pipeline rank s mod pipeline.
  for (std::int32_t stage = rank; stage < shape.stages(); stage += pipeline_) {
    const StageMemory& of_stage = memory.stages[static_cast<std::size_t>(stage)];
    for (std::size_t i = 0; i < memory_categories; ++i) now_[i] += of_stage.resident.bytes[i];
    now_[host] += of_stage.host_resident.total();
  }
  list_changes(memory, rank);
  most_ = now_;
  result_.peak_bytes = total_ = on_device().total();
  if (timeline == Timeline::record) result_.memory.push_back({0, on_device()});
}

// Once for all micro-batches.
void MemoryLedger::list_changes(const StepMemory& memory, std::int32_t rank) {
  const auto visit_all = [&](const auto& visit) {
    kept_.clear();
    const auto visit_holdings = [&](const std::vector<Holding>& holdings, std::size_t turn) {
      for (const Holding& holding : holdings) {
        if (holding.is_kept) kept_.emplace_back();
        visit(rows_[row_of(holding.begins, turn)], holding, holding.bytes);
        if (!holding.is_momentary()) visit(rows_[row_of(holding.ends, turn)], holding, -holding.bytes);
      }
    };
    const auto pipeline = static_cast<std::size_t>(pipeline_);
    for (std::size_t turn = 0; turn < turns_; ++turn)
      visit_holdings(memory.stages[turn * pipeline + static_cast<std::size_t>(rank)].holdings, turn);
    visit_holdings(memory.rank_holdings, 0);
  };
  visit_all([](Row& row, const Holding&, double) { ++row.changes; });
  std::uint32_t first = 0;
  for (Row& row : rows_) {
    row.first = first;
    first += std::exchange(row.changes, 0);
  }
  changes_.resize(first);
  visit_all([&](Row& row, const Holding& holding, double bytes) {
    const auto category = static_cast<std::uint8_t>(holding.category);
    const std::uint8_t place = holding.place == MemoryPlace::host ? host : category;
    const std::int32_t kept = holding.is_kept ? static_cast<std::int32_t>(kept_.size()) - 1 : none_kept;
    changes_[row.first + row.changes++] = {bytes, place, holding.is_momentary(), holding.beside, kept};
    row.has_moments = row.has_moments || holding.is_momentary();
  });
}

void MemoryLedger::record(double seconds, MemoryEvent event, std::int32_t stage, std::int32_t instruction) {
  const std::uint32_t row = row_of(event, static_cast<std::size_t>(stage / pipeline_));
  if (timeline_ == Timeline::leave_out && rows_[row].changes == 0 && !starts_pass(row)) return;
  // A pass reports its end when it starts: events wait in the heap until the clock reaches them.
  ahead_.push_back({seconds, row, instruction});
  std::ranges::push_heap(ahead_, is_later);
}

void MemoryLedger::advance(double seconds) {
  // Strictly before: other ranks may still report events of this very instant, which must be sorted among these.
  while (!ahead_.empty() && ahead_.front().seconds < seconds) count_next();
}

void MemoryLedger::finish() {
  while (!ahead_.empty()) count_next();
  result_.final_bytes = on_device();
  std::copy_n(most_.begin(), memory_categories, result_.high_water.bytes.begin());
  result_.host_peak_bytes = most_[host];
}

void MemoryLedger::count_next() {
  std::ranges::pop_heap(ahead_, is_later);
  const Event event = ahead_.back();
  ahead_.pop_back();
  if (starts_pass(event.row)) pass_ = event.instruction;
  if (rows_[event.row].has_moments) hold_for_a_moment(event);
  for (const Change& change : changes_of(event)) {
    if (change.kept != none_kept)
      add_kept(change);
    else if (!change.is_momentary)
      add(change.place, change.bytes);
  }
  note_peak(event);
  if (timeline_ == Timeline::leave_out) return;
  // One sample per instant, after all of its changes.
  if (result_.memory.back().seconds < event.seconds) result_.memory.push_back({event.seconds, {}});
  result_.memory.back().bytes = on_device();
}

void MemoryLedger::add(std::size_t place, double bytes) {
  now_[place] += bytes;
  most_[place] = std::max(most_[place], now_[place]);
  if (place != host) total_ += bytes;
}

void MemoryLedger::add_kept(const Change& change) {
  Kept& kept = kept_[static_cast<std::size_t>(change.kept)];
  if (change.bytes < 0) {
    --kept.now;
  } else if (++kept.now > kept.most) {
    kept.most = kept.now;
    add(change.place, change.bytes);
  }
}

void MemoryLedger::hold_for_a_moment(const Event& event) {
  const std::span<const Change> changes = changes_of(event);
  for (const Change& change : changes)
    if (change.is_momentary) add(change.place, change.bytes + begun_beside(event, change));
  note_peak(event);
  for (auto change = changes.rbegin(); change != changes.rend(); ++change)
    if (change->is_momentary) add(change->place, -(change->bytes + begun_beside(event, *change)));
}

// What else takes memory of the category at this instant, although its events come later.
double MemoryLedger::begun_beside(const Event& event, const Change& change) const {
  double bytes = 0;
  if (!change.beside) return bytes;
  for (const Event& other : ahead_) {
    if (other.seconds != event.seconds || !is_row_of(*change.beside, other.row)) continue;
    for (const Change& begun : changes_of(other))
      if (begun.place == change.place) bytes += begun.bytes;
  }
  return bytes;
}

void MemoryLedger::note_peak(const Event& event) {
  if (total_ <= result_.peak_bytes) return;
  result_.peak_bytes = total_;
  result_.peak_instruction = event.instruction == running_pass ? pass_ : event.instruction;
}

MemoryBytes MemoryLedger::on_device() const {
  MemoryBytes bytes;
  std::copy_n(now_.begin(), memory_categories, bytes.bytes.begin());
  return bytes;
}

}  // namespace llmtrain
