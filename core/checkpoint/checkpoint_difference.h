// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"

namespace llmtrain {

// How a tensor of two checkpoints differs.
struct TensorDifference {
  std::string name;
  std::string reason;          // why values cannot be compared ("is only in …"); empty if they were
  std::int64_t elements = 0;   // of the tensor
  std::int64_t differing = 0;  // that are not equal; a NaN equals a NaN
  double largest = 0;          // absolute difference; NaN if one value alone is NaN
  double relative = 0;         // |a - b| ÷ |a|, L2 norms over the tensor; infinite where a is all zeros
};

struct CheckpointDifference {
  std::vector<TensorDifference> tensors;  // those that differ, in the order of the first checkpoint, then of the second
  std::int64_t compared = 0;              // tensors that both have
};

// Compares the values of two checkpoints' tensors, whatever scale they are stored with, by name: how they are cut into
// files, and of which dtype they are, does not matter. Reads both in pieces of bounded size. Throws Error(bad_data) as
// CheckpointReader::read_box(), and for dtypes that are not F64, F32, BF16, F16 or integers of at most 64 bits.
CheckpointDifference compare_checkpoints(const CheckpointReader& first, const CheckpointReader& second);

}  // namespace llmtrain
