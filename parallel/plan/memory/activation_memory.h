// SPDX-License-Identifier: Apache-2.0
// What micro-batches take in their passes: of StepMemory the part that activations have.
#pragma once

#include <cstddef>

#include "core/graph/graph.h"
#include "core/graph/operators/operator_lists.h"
#include "core/graph/operators/operators.h"
#include "parallel/layout/layout.h"
#include "parallel/plan/profile/program.h"
#include "parallel/plan/simulator/step_memory.h"

namespace llmtrain {

// A block's memory for one micro-batch: saved for the backward, alive during a pass, and its weights.
struct BlockMemory {
  double saved = 0;
  PassPeak peak;
  double weights = 0;  // bytes in the compute type
  double output = 0;   // output_bytes()
};

// Computes the memory of blocks that are alike once. All arguments outlive it.
class BlockMemories {
 public:
  BlockMemories(const Partition& partition, const OperatorLists& operators, const MemoryFacts& facts)
      : partition_(partition), operators_(operators), facts_(facts), cache_(operators.graph()) {}

  const BlockMemory& of(std::size_t block);
  const OperatorLists& operators() const { return operators_; }

 private:
  double weight_bytes(std::size_t block) const;
  double share_ahead() const;

  const Partition& partition_;
  const OperatorLists& operators_;
  const MemoryFacts& facts_;
  BlockCache<BlockMemory> cache_;
};

// Adds to a stage what each of its micro-batches takes. `reserve`: what the allocator keeps of memory that comes and
// goes, and cannot give to tensors of other sizes, as a share of it.
void hold_activations(const Partition& partition, std::size_t index, BlockMemories& blocks, double reserve,
                      StageMemory& stage);

}  // namespace llmtrain
