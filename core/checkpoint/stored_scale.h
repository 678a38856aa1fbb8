// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "core/checkpoint/checkpoint.h"

namespace llmtrain {

// What a checkpoint calls the scale of a tensor: a tensor of one F32 number, by which values were multiplied before
// they were stored. Tensors in 8 and 16 bits have one at FP8 levels.
std::string scale_name(const std::string& tensor);

// A tensor of one F32 number; none where the checkpoint has no such tensor. Throws Error(bad_data) where it is another.
std::optional<float> read_number(const CheckpointReader& checkpoint, const std::string& name);

}  // namespace llmtrain
