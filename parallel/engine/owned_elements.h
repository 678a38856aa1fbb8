// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/checkpoint/tensor_slice.h"
#include "core/graph/sharding.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

// Elements [begin, end) of this rank's part of a parameter, without padding, which lie from `place` on in the tensors
// over what the rank owns.
struct OwnedElements {
  const Parameter* parameter = nullptr;
  LocalPart part;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t place = 0;

  std::int64_t count() const { return end - begin; }
  // Elements [first, last) of the part as boxes of the whole parameter, in the order of memory.
  std::vector<SliceBox> boxes(std::int64_t first, std::int64_t last) const;
};

// What this rank owns of a unit's parameters.
std::vector<OwnedElements> owned_elements(const LocalModel& model, const ParameterUnit& unit);

// Of it what this rank writes to a checkpoint: what several ranks own they share evenly, and of all ranks together
// every element is written once.
std::vector<OwnedElements> saved_elements(const LocalModel& model, const ParameterUnit& unit);

}  // namespace llmtrain
