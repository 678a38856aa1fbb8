// SPDX-License-Identifier: Apache-2.0
#include "tests/core/residency/random_sequence.h"

#include <algorithm>

namespace llmtrain::test {
namespace {

std::int64_t below(std::mt19937& random, std::int64_t end) {
  return static_cast<std::int64_t>(random() % static_cast<unsigned>(end));
}

// The first use of what does not last makes it, and the last one ends it.
void close_lives(AccessSequence& sequence) {
  for (std::size_t tensor = 0; tensor < sequence.tensors.size(); ++tensor) {
    if (sequence.tensors[tensor].is_lasting) continue;
    TensorUse* last = nullptr;
    for (AccessTask& task : sequence.tasks)
      for (TensorUse& use : task.uses) {
        if (use.tensor != tensor) continue;
        if (last == nullptr) use.access = Access::make;
        last = &use;
      }
    if (last != nullptr) last->is_last = true;
  }
}

}  // namespace

AccessSequence unit_reads(std::size_t tensors, std::span<const std::size_t> order) {
  AccessSequence sequence;
  sequence.tensors.assign(tensors, {"", 1, true});
  for (const std::size_t tensor : order)
    sequence.tasks.push_back({{{tensor, Access::read, false}}, 0, TaskPlace::device});
  return sequence;
}

AccessSequence random_sequence(std::mt19937& random) {
  AccessSequence sequence;
  const std::int64_t tensors = 1 + below(random, 8);
  for (std::int64_t i = 0; i < tensors; ++i)
    sequence.tensors.push_back({"t" + std::to_string(i), 1 + below(random, 9), below(random, 3) > 0});
  const std::int64_t tasks = 1 + below(random, 20);
  for (std::int64_t i = 0; i < tasks; ++i) {
    AccessTask task;
    task.place = below(random, 6) == 0 ? TaskPlace::host : TaskPlace::device;
    task.working_bytes = below(random, 3);
    for (std::size_t tensor = 0; tensor < sequence.tensors.size(); ++tensor)
      if (below(random, 3) == 0) task.uses.push_back({tensor, static_cast<Access>(below(random, 3)), false});
    sequence.tasks.push_back(task);
  }
  close_lives(sequence);
  return sequence;
}

}  // namespace llmtrain::test
