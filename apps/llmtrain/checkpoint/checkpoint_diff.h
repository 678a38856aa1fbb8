// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/checkpoint_difference.h"

namespace llmtrain::app {

std::string difference_as_text(const CheckpointReader& first, const CheckpointReader& second,
                               const CheckpointDifference& difference);
std::string difference_as_json(const CheckpointReader& first, const CheckpointReader& second,
                               const CheckpointDifference& difference);

}  // namespace llmtrain::app
