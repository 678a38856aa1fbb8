// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/step_arena.h"

#include <algorithm>
#include <utility>

#include "core/arena/packing.h"
#include "parallel/device/arena_memory.h"
#include "parallel/device/cpu_allocator.h"

namespace llmtrain {
namespace {

thread_local StepArena* arena_of_thread = nullptr;

// A tenth of a second at most: a step waits for it.
constexpr PackingLimits step_limits{.pairs = std::int64_t{1} << 22};
// The share of a step's bytes without a place from which places are planned again.
constexpr std::int64_t worth_planning = 64;

}  // namespace

StepArena::StepArena() { serve_arenas(); }

StepArena::~StepArena() {
  if (memory_) ArenaMemory::close(std::move(memory_));
}

StepArena::Step::Step(StepArena* arena) : arena_(arena) {
  if (arena_ != nullptr) arena_->begin();
  arena_of_thread = arena_;
}

StepArena::Step::~Step() { arena_of_thread = nullptr; }

void StepArena::Step::finish() {
  arena_of_thread = nullptr;
  if (arena_ != nullptr) arena_->finish();
}

void StepArena::begin_section() {
  if (arena_of_thread != nullptr) arena_of_thread->trace_.sections.emplace_back();
}

void StepArena::begin() {
  trace_.sections.clear();
  trace_.sections.emplace_back();
  taken_.clear();
  use_.step_bytes = use_.placed_bytes = use_.allocations = 0;
  // What evaluation or the recorded step needed lies beside the block now.
  if (std::exchange(has_rested_, false)) trim_cpu_tensors();
}

void StepArena::finish() {
  ++steps_since_plan_;
  const std::int64_t without = use_.step_bytes - use_.placed_bytes;
  if (use_.plans > 0 && without <= use_.step_bytes / worth_planning) return;
  if (use_.plans > 0 && steps_since_plan_ < std::int64_t{1} << std::min<std::int64_t>(use_.plans - 1, 40)) return;
  // Else the next step tries again.
  if (memory_ == nullptr || memory_->is_unused()) plan();
}

void StepArena::plan() {
  planned_ = joined(planned_, std::move(trace_));
  const std::vector<Buffer> buffers = buffers_of(planned_);
  const Packing packing = pack(buffers, step_limits);
  offsets_.clear();
  std::size_t next = 0;
  for (const auto& section : planned_.sections) {
    auto& offsets = offsets_.emplace_back();
    for (std::size_t i = 0; i < section.size(); ++i) offsets.push_back(packing.offsets[next++]);
  }
  if (memory_) ArenaMemory::close(std::move(memory_));
  // Where there is no memory, nothing has a place.
  memory_ = packing.height > 0 ? ArenaMemory::map(static_cast<std::size_t>(packing.height)) : nullptr;
  use_.bytes = memory_ ? packing.height : 0;
  use_.least = least_height(buffers, step_limits.alignment);
  ++use_.plans;
  steps_since_plan_ = 0;
  has_rested_ = true;
}

void StepArena::rest() {
  if (memory_) memory_->forget();
  has_rested_ = true;
}

StepArena* StepArena::of_thread() { return arena_of_thread; }

void* StepArena::take(std::size_t bytes) {
  const std::size_t section = trace_.sections.size() - 1, index = trace_.sections[section].size();
  trace_.sections[section].push_back({static_cast<std::int64_t>(bytes), {}});
  use_.step_bytes += static_cast<std::int64_t>(bytes);
  ++use_.allocations;
  if (memory_ == nullptr || section >= offsets_.size() || index >= offsets_[section].size()) return nullptr;
  const AllocationTrace::Allocation& planned = planned_.sections[section][index];
  if (!planned.freed || static_cast<std::int64_t>(bytes) > planned.bytes) return nullptr;
  void* const memory = memory_->take(static_cast<std::size_t>(offsets_[section][index]), bytes);
  if (memory != nullptr) use_.placed_bytes += static_cast<std::int64_t>(bytes);
  return memory;
}

void StepArena::note_taken(void* memory) {
  taken_[memory] = {trace_.sections.size() - 1, trace_.sections.back().size() - 1};
}

void StepArena::note_freed(void* memory) {
  const auto found = taken_.find(memory);
  if (found == taken_.end()) return;
  trace_.sections[found->second.section][found->second.allocations].freed =
      AllocationTrace::Moment{trace_.sections.size() - 1, trace_.sections.back().size()};
  taken_.erase(found);
}

}  // namespace llmtrain
