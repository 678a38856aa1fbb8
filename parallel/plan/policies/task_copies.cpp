// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/policies/task_copies.h"

namespace llmtrain {
namespace {

class CopyWriter {
 public:
  CopyWriter(const RankTasks& tasks, const ResidencyPlan& plan, std::int64_t budget, const CopyRates& rates)
      : tasks_(tasks),
        plan_(plan),
        budget_(budget),
        rates_(rates),
        is_here_(tasks.sequence.tensors.size()),
        is_on_its_way_(tasks.sequence.tensors.size()) {
    for (const DeviceTensor& held : plan.start) come(held.tensor);
  }

  std::vector<InstructionCopies> write(std::size_t instructions) {
    std::vector<InstructionCopies> copies(instructions);
    for (std::size_t index = 0; index < tasks_.sequence.tasks.size(); ++index) {
      InstructionCopies& here = copies[tasks_.instructions[index]];
      if (tasks_.sequence.tasks[index].place == TaskPlace::device)
        write_device(index, here);
      else
        write_host(index, here);
      for (const TensorUse& use : tasks_.sequence.tasks[index].uses)
        if (use.is_last) leave(use.tensor);
    }
    return copies;
  }

 private:
  void write_device(std::size_t index, InstructionCopies& copies) {
    const AccessTask& task = tasks_.sequence.tasks[index];
    apply(plan_.tasks[index].before, copies.before);
    for (const TensorUse& use : task.uses) come(use.tensor);
    // All copies to the host are done where one is waited for, and a fetch follows them.
    copies.waits_for_room = held_ + task.working_bytes + leaving_ > budget_;
    if (!copies.before.empty() || copies.waits_for_room) {
      leaving_ = 0;
      is_on_its_way_.assign(is_on_its_way_.size(), false);
    }
    apply(plan_.tasks[index].beside, copies.beside);
  }

  // Nothing on the device waits for the host.
  void write_host(std::size_t index, InstructionCopies& copies) {
    apply(plan_.tasks[index].before, copies.beside);
    const std::int32_t stage = tasks_.updates[index];
    if (stage >= 0 && !rates_.host_update_seconds.empty())
      copies.beside.push_back({CopyLane::host_work, rates_.host_update_seconds[static_cast<std::size_t>(stage)]});
    const std::size_t known = copies.beside.size();
    apply(plan_.tasks[index].beside, copies.beside);
    for (std::size_t i = known; i < copies.beside.size(); ++i) copies.beside[i].lane = CopyLane::returning;
  }

  void apply(const std::vector<Move>& moves, std::vector<Copy>& copies) {
    for (const Move& move : moves) {
      const double seconds = static_cast<double>(bytes_of(move.tensor)) / rates_.bytes_per_second;
      switch (move.kind) {
        case MoveKind::fetch:
          come(move.tensor);
          copies.push_back({CopyLane::to_device, seconds});
          break;
        case MoveKind::write_back:
          is_on_its_way_[move.tensor] = true;
          copies.push_back({CopyLane::to_host, seconds});
          break;
        case MoveKind::release:
          if (is_on_its_way_[move.tensor]) leaving_ += bytes_of(move.tensor);
          leave(move.tensor);
          break;
      }
    }
  }

  void come(std::size_t tensor) {
    if (!is_here_[tensor]) held_ += bytes_of(tensor);
    is_here_[tensor] = true;
  }
  void leave(std::size_t tensor) {
    if (is_here_[tensor]) held_ -= bytes_of(tensor);
    is_here_[tensor] = false;
  }
  std::int64_t bytes_of(std::size_t tensor) const { return tasks_.sequence.tensors[tensor].bytes; }

  const RankTasks& tasks_;
  const ResidencyPlan& plan_;
  std::int64_t budget_;
  const CopyRates& rates_;
  std::vector<bool> is_here_;
  std::vector<bool> is_on_its_way_;      // to the host, as far as nothing has waited for it
  std::int64_t held_ = 0, leaving_ = 0;  // bytes, the latter on their way to the host although they are released
};

}  // namespace

std::vector<InstructionCopies> task_copies(const RankTasks& tasks, const ResidencyPlan& plan, std::int64_t budget,
                                           const CopyRates& rates, std::size_t instructions) {
  return CopyWriter(tasks, plan, budget, rates).write(instructions);
}

}  // namespace llmtrain
