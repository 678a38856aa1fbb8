// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

#include "parallel/comm/communicator.h"
#include "parallel/device/measurement.h"
#include "parallel/engine/model_state.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// What a rank's steps take beyond what memory.limit leaves for its tensors (RunRequest::tensor_limit): on a CPU what
// the calling thread allocates, on a GPU what LibTorch does. Loading, evaluation and checkpoints are no steps.
class LimitWatch {
 public:
  // `memory` watches the thread that calls the others, and outlives this.
  LimitWatch(const RunRequest& request, const LocalModel& model, ThreadMemory& memory);

  bool has_limit() const { return limit_.has_value(); }
  void begin_step();
  // A captured step or one whose messages came late may take more than others: the most of all is kept.
  void end_step();
  // Bytes; 0 within the limit.
  std::int64_t excess() const { return excess_; }

 private:
  std::optional<std::int64_t> limit_;
  c10::Device device_;
  ThreadMemory& memory_;
  std::int64_t excess_ = 0;
};

// The rank whose steps are furthest beyond its limit.
struct MemoryExcess {
  int rank = 0;
  std::int64_t bytes = 0;  // 0: all ranks are within it
};

// The largest of all ranks, on every rank. Collective; blocks.
MemoryExcess largest_excess(Communicator& communicator, std::int64_t own);

// "step 3: the tensors of rank 1 take 1.2 MiB more than memory.limit leaves for them".
std::string excess_text(std::int64_t step, const MemoryExcess& excess);

}  // namespace llmtrain
