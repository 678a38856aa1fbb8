// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/checkpoint/checkpoint.h"

namespace llmtrain::app {

// The content of a checkpoint: step, parameters (without optimizer state), files and every tensor.
std::string describe_as_text(const CheckpointReader& reader);
std::string describe_as_json(const CheckpointReader& reader);

}  // namespace llmtrain::app
