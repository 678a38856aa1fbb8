// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/arena/allocation_trace.h"

namespace llmtrain {

class ArenaMemory;

// One block of memory for the tensors on the CPU that a rank allocates in a training step, at places planned from an
// earlier step (core/arena/packing.h). The first step is recorded; from then on the k-th allocation of a section has
// the place that was planned for it, if it is no larger and nothing is there. Anything else has memory of its own, as
// without an arena: that tensors differ from step to step, or outlive one, costs memory and is counted, and never
// overwrites anything. Where more than a 64th of a step's bytes had no place, places are planned again, for what both
// steps need, after 1, 2, 4, … more steps.
//
// All functions belong to the rank's thread, whose allocations these are; tensors may be freed by any
// (ArenaMemory::release()).
class StepArena {
 public:
  // Smaller tensors lie elsewhere: the alignment of places would make them larger.
  static constexpr std::size_t smallest = 512;

  StepArena();
  StepArena(const StepArena&) = delete;
  StepArena& operator=(const StepArena&) = delete;
  // Tensors may outlive it: the block goes with the last.
  ~StepArena();

  // While one exists, the thread's allocations are those of a step of this arena. `arena` may be null: nothing happens.
  class Step {
   public:
    explicit Step(StepArena* arena);
    Step(const Step&) = delete;
    Step& operator=(const Step&) = delete;
    ~Step();
    // The step is done, and may be planned by; without it, as after an exception, it is forgotten.
    void finish();

   private:
    StepArena* arena_;
  };
  // What follows is another section of the step that the thread is in, if there is one.
  static void begin_section();

  // Returns the block's pages to the system if nothing is in it, before work that has memory of its own.
  void rest();

  struct Use {
    std::int64_t bytes = 0;         // of the block; 0 before it is planned
    std::int64_t least = 0;         // the largest sum of sizes that are in use at once: no block can be smaller
    std::int64_t step_bytes = 0;    // the sum of all sizes of the last step
    std::int64_t placed_bytes = 0;  // of these, what was in the block
    std::int64_t allocations = 0;   // of the last step
    std::int64_t plans = 0;         // how often places were planned
  };
  const Use& use() const { return use_; }

  // For the allocator (cpu_allocator.cpp): the arena whose step the calling thread is in, or null; memory at the next
  // place, or null; what the allocation was given, wherever it lies; and that it is freed, by the same thread.
  static StepArena* of_thread();
  void* take(std::size_t bytes);
  void note_taken(void* memory);
  void note_freed(void* memory);

 private:
  void begin();
  void finish();
  void plan();

  std::shared_ptr<ArenaMemory> memory_;
  AllocationTrace trace_;    // of this step
  AllocationTrace planned_;  // what the places are for
  std::vector<std::vector<std::int64_t>> offsets_;
  std::unordered_map<void*, AllocationTrace::Moment> taken_;  // of this step: its section and index there
  Use use_;
  std::int64_t steps_since_plan_ = 0;
  bool has_rested_ = false;
};

}  // namespace llmtrain
