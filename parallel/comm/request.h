// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/collective.h"
#include "parallel/comm/array.h"
#include "parallel/comm/group.h"

namespace llmtrain {

// One operation of one rank, as passed to a backend: validated, with everything that its execution needs.
struct Request {
  Collective collective = Collective::barrier;
  Purpose purpose = Purpose::control;
  Group group;
  ElementType type = ElementType::uint8;
  Memory memory = Memory::host;  // of both, input and output
  Reduction reduction = Reduction::sum;
  const void* input = nullptr;
  void* output = nullptr;
  // Elements: all of them for all_reduce, broadcast and messages, one rank's part for all_gather and reduce_scatter.
  std::int64_t count = 0;
  int peer = -1;  // position of a broadcast's root, or of a message's other side
  // all_to_all only: elements sent to and received from each position, contiguous in `input` and `output`.
  std::vector<std::int64_t> input_counts;
  std::vector<std::int64_t> output_counts;

  // Throws Error(internal_error) for device memory; for backends that take only host memory.
  void require_host_memory() const;
  // Elements of all ranks together; for all_to_all those that this rank sends.
  std::int64_t total_count() const;
  // Bytes that this rank sends with the ring algorithm; for all_to_all the bytes that it sends to others.
  double ring_bytes() const;
  // "send of 1024 bf16 to rank 3 for pipeline in group pipeline [1 3]"
  std::string description() const;
};

}  // namespace llmtrain
