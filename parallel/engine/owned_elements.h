// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/checkpoint/tensor_slice.h"
#include "core/graph/sharding.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

// Elements [begin, end) of this rank's part of a parameter, without padding. They start at index `place` in the tensors
// over the rank's owned range.
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

// The elements of a unit's parameters that this rank owns.
std::vector<OwnedElements> owned_elements(const LocalModel& model, const ParameterUnit& unit);

// The part of them that this rank writes to a checkpoint: ranks that own the same elements share them evenly, and all
// ranks together write every element once.
std::vector<OwnedElements> saved_elements(const LocalModel& model, const ParameterUnit& unit);

}  // namespace llmtrain
