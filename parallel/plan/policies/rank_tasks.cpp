// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/policies/rank_tasks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "core/graph/values.h"
#include "parallel/plan/cost/priced_layout.h"

namespace llmtrain {
namespace {

using Event = MemoryEvent;
using Category = MemoryCategory;

std::int64_t whole_bytes(double bytes) { return static_cast<std::int64_t>(std::ceil(bytes)); }

// Whether the instruction is the last that adds to the gradients of its stage, or reduces them.
bool completes_gradients(const ScheduleShape& shape, const std::vector<Instruction>& instructions, std::size_t index) {
  const Instruction& instruction = instructions[index];
  const Operation last = shape.reduces ? Operation::reduce_gradients : Operation::backward;
  if (instruction.operation != last) return false;
  for (std::size_t later = index + 1; later < instructions.size(); ++later)
    if (instructions[later].operation == last && instructions[later].stage == instruction.stage) return false;
  return true;
}

// Gives each tensor of a rank an index when it is first asked for.
class RankTensors {
 public:
  RankTensors(const Plan& plan, AccessSequence& sequence) : plan_(plan), sequence_(sequence) {}

  enum class Kind : std::uint8_t { weights, gradients, states, kept, crossing };

  void use(AccessTask& task, Kind kind, std::int32_t stage, std::int32_t micro, Access access, bool is_last = false) {
    const double bytes = bytes_of(kind, stage);
    if (bytes <= 0) return;
    const auto [known, is_new] = indexes_.emplace(std::tuple(kind, stage, micro), sequence_.tensors.size());
    const bool lasts = kind == Kind::weights || kind == Kind::states;
    if (is_new) sequence_.tensors.push_back({name_of(kind, stage, micro), whole_bytes(bytes), lasts});
    // A stage's first gradients overwrite.
    if (is_new && kind == Kind::gradients) access = Access::make;
    const auto same = std::ranges::find(task.uses, known->second, &TensorUse::tensor);
    if (same == task.uses.end()) return task.uses.push_back({known->second, access, is_last});
    if (access != Access::read && same->access == Access::read) same->access = access;
    same->is_last |= is_last;
  }

 private:
  double bytes_of(Kind kind, std::int32_t stage) const {
    const StageMemory& memory = plan_.memory.stages[static_cast<std::size_t>(stage)];
    switch (kind) {
      case Kind::weights:
        return memory.resident[Category::weights];
      case Kind::gradients:
        return memory.resident[Category::gradients];
      case Kind::states:
        return memory.resident[Category::master_weights] + memory.resident[Category::optimizer];
      case Kind::kept:
        return memory.held(Event::forward_starts, Event::backward_ends) - crossing_bytes(stage);
      case Kind::crossing:
        return crossing_bytes(stage);
    }
    return 0;
  }

  // What passes to the next stage of the rank, as far as the stage keeps it.
  double crossing_bytes(std::int32_t stage) const {
    const Partition& partition = plan_.layout->partition();
    if (partition.mesh.pipeline > 1) return 0;
    const auto index = static_cast<std::size_t>(stage);
    const double kept = plan_.memory.stages[index].held(Event::forward_starts, Event::backward_ends);
    return std::min(kept, values_bytes(*partition.graph, partition.outgoing(index), pass_setting(partition)));
  }

  static std::string name_of(Kind kind, std::int32_t stage, std::int32_t micro) {
    constexpr const char* words[] = {"weights", "gradients", "states", "activations", "values"};
    std::string name = std::string(words[static_cast<std::size_t>(kind)]) + " of stage " + std::to_string(stage);
    return micro < 0 ? name : name + " micro " + std::to_string(micro);
  }

  const Plan& plan_;
  AccessSequence& sequence_;
  std::map<std::tuple<Kind, std::int32_t, std::int32_t>, std::size_t> indexes_;
};

class TaskWriter {
 public:
  using Kind = RankTensors::Kind;

  TaskWriter(const Plan& plan, const UpdateRule& rule, RankTasks& tasks)
      : plan_(plan), partition_(plan.layout->partition()), rule_(rule), tensors_(plan, tasks.sequence), tasks_(tasks) {}

  void write(const std::vector<Instruction>& instructions) {
    std::map<std::int32_t, int> updates;
    for (std::size_t index = 0; index < instructions.size(); ++index) {
      const Instruction& instruction = instructions[index];
      if (instruction.operation == Operation::forward) add(index, pass(instruction, true), -1);
      if (instruction.operation == Operation::backward) add(index, pass(instruction, false), -1);
      if (instruction.operation != Operation::optimizer_step) continue;
      const bool leaves_first = rule_.place == TaskPlace::host && updates[instruction.stage]++ == 0;
      leaves_first ? add(index, hand_over(instruction.stage), -1)
                   : add(index, update(instruction.stage), instruction.stage);
    }
  }

 private:
  void add(std::size_t index, AccessTask task, std::int32_t updated) {
    tasks_.sequence.tasks.push_back(std::move(task));
    tasks_.instructions.push_back(index);
    tasks_.updates.push_back(updated);
  }

  AccessTask pass(const Instruction& pass, bool is_forward) {
    const std::int32_t stage = pass.stage, micro = pass.micro;
    const StageMemory& memory = plan_.memory.stages[static_cast<std::size_t>(stage)];
    AccessTask task;
    task.working_bytes = whole_bytes(is_forward ? memory.held(Event::forward_starts, Event::forward_ends)
                                                : memory.held(Event::backward_starts, Event::backward_ends));
    tensors_.use(task, Kind::weights, stage, -1, Access::read);
    for (const LentParameter& lent : partition_.lent)
      if (std::ranges::count(lent.stages, static_cast<std::size_t>(stage)) > 0)
        tensors_.use(task, Kind::weights, static_cast<std::int32_t>(lent.holder()), -1, Access::read);
    if (is_forward) {
      tensors_.use(task, Kind::kept, stage, micro, Access::make);
      tensors_.use(task, Kind::crossing, stage, micro, Access::make);
      const bool is_last_stage = partition_.is_last(static_cast<std::size_t>(stage));
      if (is_last_stage)
        tensors_.use(task, Kind::gradients, plan_.memory.head_adds_to.value_or(stage), -1, Access::change);
    } else {
      tensors_.use(task, Kind::kept, stage, micro, Access::read, true);
      tensors_.use(task, Kind::crossing, stage, micro, Access::read, true);
      tensors_.use(task, Kind::gradients, stage, -1, Access::change);
      for (const std::int32_t other : memory.backward_adds_to)
        tensors_.use(task, Kind::gradients, other, -1, Access::change);
    }
    // Their gradients take the place of the values that the stage has read.
    if (partition_.mesh.pipeline == 1 && stage > 0)
      tensors_.use(task, Kind::crossing, stage - 1, micro, is_forward ? Access::read : Access::change);
    return task;
  }

  AccessTask hand_over(std::int32_t stage) {
    AccessTask task;
    task.place = TaskPlace::host;
    tensors_.use(task, Kind::gradients, stage, -1, Access::read);
    return task;
  }

  AccessTask update(std::int32_t stage) {
    AccessTask task;
    task.place = rule_.place;
    tensors_.use(task, Kind::gradients, stage, -1, Access::read, true);
    tensors_.use(task, Kind::states, stage, -1, Access::change);
    tensors_.use(task, Kind::weights, stage, -1, Access::change);
    return task;
  }

  const Plan& plan_;
  const Partition& partition_;
  UpdateRule rule_;
  RankTensors tensors_;
  RankTasks& tasks_;
};

// Bytes that no policy moves: what is not of a stage's states, what passes between ranks, and what the optimizer takes.
double fixed_bytes(const Plan& plan, std::size_t rank) {
  const Partition& partition = plan.layout->partition();
  double bytes = plan.memory.rank.total();
  for (const Holding& holding : plan.memory.rank_holdings) bytes += holding.bytes;
  for (std::size_t stage = rank; stage < plan.memory.stages.size();
       stage += static_cast<std::size_t>(partition.mesh.pipeline)) {
    const StageMemory& memory = plan.memory.stages[stage];
    bytes += memory.resident[Category::activations] + memory.resident[Category::buffers] +
             memory.resident[Category::communication] + memory.resident[Category::framework];
    for (const Holding& holding : memory.holdings)
      if (holding.category == Category::communication && holding.place == MemoryPlace::device) bytes += holding.bytes;
  }
  return bytes;
}

}  // namespace

Schedule with_stage_updates(const Schedule& schedule, const UpdateRule& rule) {
  Schedule changed{.shape = schedule.shape, .ranks = {}};
  for (const RankSchedule& rank : schedule.ranks) {
    RankSchedule& written = changed.ranks.emplace_back();
    std::vector<std::int32_t> stages;
    for (const Instruction& instruction : rank.instructions)
      if (instruction.stage >= 0 && std::ranges::count(stages, instruction.stage) == 0)
        stages.push_back(instruction.stage);
    std::ranges::sort(stages);
    const auto add = [&](std::int32_t stage) {
      written.instructions.push_back({.operation = Operation::optimizer_step, .stage = stage});
    };
    for (std::size_t index = 0; index < rank.instructions.size(); ++index) {
      const Instruction& instruction = rank.instructions[index];
      if (instruction.operation == Operation::optimizer_step) {
        if (!rule.is_early)
          for (const std::int32_t stage : stages) add(stage);
        continue;
      }
      written.instructions.push_back(instruction);
      if (!completes_gradients(schedule.shape, rank.instructions, index)) continue;
      if (rule.place == TaskPlace::host) add(instruction.stage);
      if (rule.is_early) add(instruction.stage);
    }
  }
  return changed;
}

RankTasks rank_tasks(const Plan& plan, const Schedule& schedule, std::size_t rank, const UpdateRule& rule) {
  RankTasks tasks;
  TaskWriter(plan, rule, tasks).write(schedule.ranks[rank].instructions);
  tasks.fixed_bytes = whole_bytes(fixed_bytes(plan, rank));
  return tasks;
}

}  // namespace llmtrain
