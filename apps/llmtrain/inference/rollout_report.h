// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "parallel/runtime/runtime_interface.h"

namespace llmtrain::app {

// What `eval --rollouts` prints: the mean of the answers' tokens, and as JSON each of them.
std::string rollouts_as_text(const std::string& checkpoint, const RolloutScores& scores);
std::string rollouts_as_json(const std::string& checkpoint, const RolloutScores& scores);

}  // namespace llmtrain::app
