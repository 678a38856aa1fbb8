// SPDX-License-Identifier: Apache-2.0
#include "core/residency/residency_walk.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/error.h"

namespace llmtrain {

ResidencyWalk::ResidencyWalk(const AccessSequence& sequence, std::int64_t budget, const ResidencyPolicy& policy,
                             std::vector<DeviceTensor> start)
    : sequence_(sequence),
      budget_(budget),
      policy_(policy),
      states_(sequence.tensors.size()),
      uses_(sequence.tensors.size()) {
  const std::int64_t least = least_budget(sequence);
  if (budget < least)
    throw Error(ExitCode::bad_recipe, "a task of the device needs " + std::to_string(least) + " bytes at once, and " +
                                          std::to_string(budget) + " are left for it");
  for (std::size_t index = 0; index < sequence.tasks.size(); ++index)
    if (sequence.tasks[index].place == TaskPlace::device)
      for (const TensorUse& use : sequence.tasks[index].uses) uses_[use.tensor].push_back(index);
  for (std::size_t i = 0; i < states_.size(); ++i) states_[i].is_on_host = sequence.tensors[i].is_lasting;
  // Uses before the step are in the order of the list.
  for (std::size_t i = 0; i < start.size(); ++i) {
    State& state = states_[start[i].tensor];
    come(start[i].tensor);
    state.is_dirty = start[i].is_dirty;
    state.is_on_host = !start[i].is_dirty;
    state.last_use = static_cast<std::int64_t>(i) - static_cast<std::int64_t>(start.size());
  }
  plan_.start = std::move(start);
}

ResidencyPlan ResidencyWalk::run() {
  plan_.tasks.resize(sequence_.tasks.size());
  for (std::size_t index = 0; index < sequence_.tasks.size(); ++index) {
    TaskMoves& moves = plan_.tasks[index];
    if (sequence_.tasks[index].place == TaskPlace::host)
      run_on_host(index, moves);
    else
      run_on_device(index, moves);
  }
  if (policy_.eviction == Eviction::after_use) release_unused(sequence_.tasks.size(), plan_.after);
  std::vector<std::size_t> held;
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (states_[i].is_here) held.push_back(i);
  std::ranges::stable_sort(held, {}, [&](std::size_t tensor) { return states_[tensor].last_use; });
  for (const std::size_t tensor : held) plan_.end.push_back({tensor, states_[tensor].is_dirty});
  return std::move(plan_);
}

// The host reads what the device has made, and the device's copy of what the host writes is old from then on: where it
// has room for it, the new one follows at once.
void ResidencyWalk::run_on_host(std::size_t index, TaskMoves& moves) {
  std::vector<std::size_t> returning;
  for (const TensorUse& use : sequence_.tasks[index].uses) {
    State& state = states_[use.tensor];
    if (state.is_here && (state.is_dirty || policy_.copies_clean)) {
      moves.before.push_back({MoveKind::write_back, use.tensor});
      state.is_dirty = false;
    }
    state.is_on_host = true;
    if (!state.is_here || (use.access == Access::read && !use.is_last)) continue;
    moves.before.push_back({MoveKind::release, use.tensor});
    leave(use.tensor);
    if (policy_.returns && !use.is_last) returning.push_back(use.tensor);
  }
  for (const TensorUse& use : sequence_.tasks[index].uses)
    if (use.is_last) states_[use.tensor].is_on_host = false;
  for (const std::size_t tensor : returning)
    if (leaves_room(bytes_of(tensor), index)) fetch(tensor, moves.beside);
}

bool ResidencyWalk::leaves_room(std::int64_t bytes, std::size_t index) const {
  std::int64_t most = 0;
  for (std::size_t later = index + 1; later < sequence_.tasks.size(); ++later) {
    const AccessTask& task = sequence_.tasks[later];
    if (task.place == TaskPlace::host) continue;
    std::int64_t missing = task.working_bytes;
    for (const TensorUse& use : task.uses)
      if (!states_[use.tensor].is_here) missing += bytes_of(use.tensor);
    most = std::max(most, missing);
  }
  return held_ + bytes + most <= budget_;
}

void ResidencyWalk::run_on_device(std::size_t index, TaskMoves& moves) {
  const AccessTask& task = sequence_.tasks[index];
  if (policy_.eviction == Eviction::after_use) release_unused(index, moves.before);
  std::int64_t missing = task.working_bytes;
  for (const TensorUse& use : task.uses) {
    states_[use.tensor].pinned_by = index;
    if (!states_[use.tensor].is_here) missing += bytes_of(use.tensor);
  }
  make_room(missing, index, moves.before);
  for (const TensorUse& use : task.uses) {
    if (states_[use.tensor].is_here) continue;
    use.access == Access::make ? come(use.tensor) : fetch(use.tensor, moves.before);
  }
  if (policy_.prefetches) prefetch(index, moves.beside);
  finish_uses(index);
}

void ResidencyWalk::release_unused(std::size_t index, std::vector<Move>& moves) {
  for (std::size_t tensor = 0; tensor < states_.size(); ++tensor) {
    if (!states_[tensor].is_here) continue;
    const bool is_next = index < sequence_.tasks.size() &&
                         std::ranges::count(sequence_.tasks[index].uses, tensor, &TensorUse::tensor) > 0;
    if (!is_next) evict(tensor, moves);
  }
}

void ResidencyWalk::prefetch(std::size_t index, std::vector<Move>& moves) {
  std::size_t next = index + 1;
  while (next < sequence_.tasks.size() && sequence_.tasks[next].place == TaskPlace::host) ++next;
  if (next == sequence_.tasks.size()) return;
  const std::vector<TensorUse>& uses = sequence_.tasks[next].uses;
  // What both tasks use stays.
  for (const TensorUse& use : uses) states_[use.tensor].pinned_by = index;
  for (const TensorUse& use : uses) {
    const State& state = states_[use.tensor];
    if (state.is_here || !state.is_on_host || use.access == Access::make) continue;
    if (is_used_by_host(use.tensor, index + 1, next)) continue;
    std::int64_t movable = 0;
    for (std::size_t i = 0; i < states_.size(); ++i)
      if (states_[i].is_here && states_[i].pinned_by != index) movable += bytes_of(i);
    const std::int64_t needed = sequence_.tasks[index].working_bytes + bytes_of(use.tensor);
    if (held_ - movable + needed > budget_) continue;
    make_room(needed, index, moves);
    fetch(use.tensor, moves);
  }
}

void ResidencyWalk::finish_uses(std::size_t index) {
  for (const TensorUse& use : sequence_.tasks[index].uses) {
    State& state = states_[use.tensor];
    state.last_use = static_cast<std::int64_t>(index);
    if (use.access != Access::read) {
      state.is_dirty = true;
      state.is_on_host = false;
    }
    if (!use.is_last) continue;
    leave(use.tensor);
    state.is_on_host = false;
  }
}

bool ResidencyWalk::is_used_by_host(std::size_t tensor, std::size_t from, std::size_t to) const {
  for (std::size_t index = from; index < to; ++index)
    if (std::ranges::count(sequence_.tasks[index].uses, tensor, &TensorUse::tensor) > 0) return true;
  return false;
}

std::size_t ResidencyWalk::next_use(std::size_t tensor, std::size_t after) const {
  const std::vector<std::size_t>& uses = uses_[tensor];
  const auto next = std::ranges::upper_bound(uses, after);
  if (next != uses.end()) return *next;
  if (uses.empty() || !sequence_.tensors[tensor].is_lasting) return never;
  return sequence_.tasks.size() + uses.front();
}

double ResidencyWalk::worth_of_leaving(std::size_t tensor, std::size_t index) const {
  const std::size_t next = next_use(tensor, index);
  const double idle =
      next == never ? static_cast<double>(2 * sequence_.tasks.size()) : static_cast<double>(next - index);
  switch (policy_.eviction) {
    case Eviction::least_recently_used:
      return -static_cast<double>(states_[tensor].last_use);
    case Eviction::furthest_next_use:
    case Eviction::after_use:
      return idle;
    case Eviction::most_idle_bytes:
      // One that is dirty moves twice; larger ones make more room at once, so that fewer leave in vain.
      return idle * (states_[tensor].is_dirty ? 0.5 : 1) * static_cast<double>(bytes_of(tensor));
  }
  throw Error(ExitCode::internal_error, "an eviction of no kind");
}

std::optional<std::size_t> ResidencyWalk::victim(std::size_t index) const {
  std::optional<std::size_t> best;
  double most = 0;
  for (std::size_t tensor = 0; tensor < states_.size(); ++tensor) {
    const State& state = states_[tensor];
    if (!state.is_here || state.pinned_by == index) continue;
    const double worth = worth_of_leaving(tensor, index);
    // A clean one leaves before an equal dirty one: it needs no copy.
    const bool is_better = !best || worth > most || (worth == most && states_[*best].is_dirty && !state.is_dirty);
    if (!is_better) continue;
    best = tensor;
    most = worth;
  }
  return best;
}

void ResidencyWalk::make_room(std::int64_t bytes, std::size_t index, std::vector<Move>& moves) {
  while (held_ + bytes > budget_) {
    const std::optional<std::size_t> tensor = victim(index);
    if (!tensor) return;
    evict(*tensor, moves);
  }
}

void ResidencyWalk::evict(std::size_t tensor, std::vector<Move>& moves) {
  State& state = states_[tensor];
  if (state.is_dirty || policy_.copies_clean) moves.push_back({MoveKind::write_back, tensor});
  moves.push_back({MoveKind::release, tensor});
  state.is_on_host = true;
  leave(tensor);
}

void ResidencyWalk::fetch(std::size_t tensor, std::vector<Move>& moves) {
  moves.push_back({MoveKind::fetch, tensor});
  come(tensor);
}

void ResidencyWalk::come(std::size_t tensor) {
  states_[tensor].is_here = true;
  states_[tensor].is_dirty = false;
  held_ += bytes_of(tensor);
}

void ResidencyWalk::leave(std::size_t tensor) {
  states_[tensor].is_here = false;
  states_[tensor].is_dirty = false;
  held_ -= bytes_of(tensor);
}

}  // namespace llmtrain
