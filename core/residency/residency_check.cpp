// SPDX-License-Identifier: Apache-2.0
#include "core/residency/residency_check.h"

#include <algorithm>
#include <string>

#include "core/base/error.h"

namespace llmtrain {
namespace {

constexpr std::int64_t absent = -1;

// Versions of a tensor's contents, counted from 0.
struct Copies {
  std::int64_t newest = absent;  // none: nobody may read it
  std::int64_t device = absent, host = absent;
};

class ResidencyChecker {
 public:
  ResidencyChecker(const AccessSequence& sequence, const ResidencyPlan& plan, std::int64_t budget)
      : sequence_(sequence), plan_(plan), budget_(budget), copies_(sequence.tensors.size()) {}

  ResidencyOutcome run() {
    if (plan_.tasks.size() != sequence_.tasks.size()) throw Error(ExitCode::internal_error, "moves of other tasks");
    begin();
    for (task_ = 0; task_ < sequence_.tasks.size(); ++task_) {
      const AccessTask& task = sequence_.tasks[task_];
      const TaskMoves& moves = plan_.tasks[task_];
      for (const Move& move : moves.before) apply(move, nullptr);
      begin_uses(task);
      const bool is_on_device = task.place == TaskPlace::device;
      working_ = is_on_device ? task.working_bytes : 0;
      for (const Move& move : moves.beside) apply(move, is_on_device ? &task : nullptr);
      count(absent);
      working_ = 0;
      end_uses(task);
    }
    for (const Move& move : plan_.after) apply(move, nullptr);
    end();
    return outcome_;
  }

 private:
  [[noreturn]] void fail(std::size_t tensor, const std::string& rule) const {
    const std::string name = tensor < sequence_.tensors.size() ? sequence_.tensors[tensor].name : "";
    throw Error(ExitCode::internal_error, "residency: task " + std::to_string(task_) + ", tensor " +
                                              std::to_string(tensor) + " " + name + ": " + rule);
  }

  void begin() {
    for (std::size_t i = 0; i < copies_.size(); ++i)
      if (sequence_.tensors[i].is_lasting) copies_[i].newest = copies_[i].host = 0;
    for (const DeviceTensor& held : plan_.start) {
      if (held.tensor >= copies_.size() || !sequence_.tensors[held.tensor].is_lasting)
        fail(held.tensor, "is there before the step");
      copies_[held.tensor].device = 0;
      if (held.is_dirty) copies_[held.tensor].host = absent;
    }
    count(absent);
  }

  // All that is on the device, anew each time: sums that are carried along could be wrong in the same way as a plan.
  void count(std::int64_t tensor) {
    std::int64_t bytes = working_;
    for (std::size_t i = 0; i < copies_.size(); ++i)
      if (copies_[i].device != absent) bytes += sequence_.tensors[i].bytes;
    outcome_.peak_bytes = std::max(outcome_.peak_bytes, bytes);
    if (bytes > budget_)
      fail(static_cast<std::size_t>(tensor), std::to_string(bytes) + " bytes exceed " + std::to_string(budget_));
  }

  void apply(const Move& move, const AccessTask* running) {
    if (move.tensor >= copies_.size()) fail(move.tensor, "is none");
    Copies& copies = copies_[move.tensor];
    const std::int64_t bytes = sequence_.tensors[move.tensor].bytes;
    const bool is_used = running != nullptr && std::ranges::count(running->uses, move.tensor, &TensorUse::tensor) > 0;
    switch (move.kind) {
      case MoveKind::fetch:
        if (copies.device != absent) fail(move.tensor, "is fetched although it is there");
        if (copies.host == absent || copies.host != copies.newest) fail(move.tensor, "is fetched from an old copy");
        copies.device = copies.host;
        outcome_.traffic.fetched += bytes;
        ++outcome_.traffic.fetches;
        break;
      case MoveKind::write_back:
        if (copies.device == absent) fail(move.tensor, "is written back although it is not there");
        if (is_used) fail(move.tensor, "is written back while it is in use");
        copies.host = copies.device;
        outcome_.traffic.written_back += bytes;
        ++outcome_.traffic.write_backs;
        break;
      case MoveKind::release:
        if (copies.device == absent) fail(move.tensor, "is released although it is not there");
        if (is_used) fail(move.tensor, "is released while it is in use");
        if (copies.host != copies.newest) fail(move.tensor, "is released with the only copy");
        copies.device = absent;
        break;
    }
    count(static_cast<std::int64_t>(move.tensor));
  }

  void begin_uses(const AccessTask& task) {
    for (const TensorUse& use : task.uses) {
      Copies& copies = copies_[use.tensor];
      const bool is_on_device = task.place == TaskPlace::device;
      if (use.access != Access::make) {
        const std::int64_t here = is_on_device ? copies.device : copies.host;
        if (here == absent) fail(use.tensor, "is used where it is not");
        if (here != copies.newest) fail(use.tensor, "is used from an old copy");
      }
      if (use.access == Access::read) continue;
      if (!is_on_device && copies.device != absent) fail(use.tensor, "is written by the host while the device has it");
      (is_on_device ? copies.device : copies.host) = ++copies.newest;
    }
  }

  void end_uses(const AccessTask& task) {
    for (const TensorUse& use : task.uses) {
      if (!use.is_last) continue;
      if (sequence_.tensors[use.tensor].is_lasting) fail(use.tensor, "lasts, and cannot have a last use");
      // What is made again is another version, which no copy of this one has.
      copies_[use.tensor].device = copies_[use.tensor].host = absent;
    }
  }

  void end() {
    std::vector<bool> is_held(copies_.size()), is_dirty(copies_.size());
    for (const DeviceTensor& held : plan_.end) {
      if (held.tensor >= copies_.size() || is_held[held.tensor]) fail(held.tensor, "is listed at the end");
      is_held[held.tensor] = true;
      is_dirty[held.tensor] = held.is_dirty;
    }
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const Copies& copies = copies_[i];
      if ((copies.device != absent) != is_held[i]) fail(i, "is not where the plan leaves it");
      if (is_held[i] && (copies.host != copies.newest) != is_dirty[i]) fail(i, "is not as clean as the plan leaves it");
      if (!sequence_.tensors[i].is_lasting) {
        if (copies.device != absent) fail(i, "is left on the device");
        continue;
      }
      if (copies.device != copies.newest && copies.host != copies.newest) fail(i, "is lost");
      if (copies.device != absent && copies.device != copies.newest) fail(i, "is left in an old copy");
    }
  }

  const AccessSequence& sequence_;
  const ResidencyPlan& plan_;
  std::int64_t budget_;
  std::vector<Copies> copies_;
  std::size_t task_ = 0;
  std::int64_t working_ = 0;
  ResidencyOutcome outcome_;
};

}  // namespace

ResidencyOutcome check_residency(const AccessSequence& sequence, const ResidencyPlan& plan, std::int64_t budget) {
  return ResidencyChecker(sequence, plan, budget).run();
}

}  // namespace llmtrain
