// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/collective.h"
#include "parallel/comm/array.h"
#include "parallel/comm/group.h"

namespace llmtrain {

// One operation of one rank, as a backend gets it: checked, with all that its execution needs.
struct Request {
  Collective collective = Collective::barrier;
  Purpose purpose = Purpose::control;
  Group group;
  ElementType type = ElementType::uint8;
  Memory memory = Memory::host;  // of both, input and output
  Reduction reduction = Reduction::sum;
  const void* input = nullptr;
  void* output = nullptr;
  // Elements: of all_reduce, broadcast and messages the whole, of all_gather and reduce_scatter one rank's part.
  std::int64_t count = 0;
  int peer = -1;  // position of a broadcast's root, or of the other side of a message
  // all_to_all only: elements for, and from, each position, one after the other in `input` and `output`.
  std::vector<std::int64_t> input_counts;
  std::vector<std::int64_t> output_counts;

  // Throws Error(internal_error) where the memory is a device's: for backends of the host alone.
  void require_host_memory() const;
  // Elements of all ranks together; of all_to_all those that this rank gives.
  std::int64_t total_count() const;
  // What this rank sends by the ring algorithm; of an all_to_all with unequal parts what it gives to others.
  double ring_bytes() const;
  // "send of 1024 bf16 to rank 3 for pipeline in group pipeline [1 3]"
  std::string description() const;
};

}  // namespace llmtrain
