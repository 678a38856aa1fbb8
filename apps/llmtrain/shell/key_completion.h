// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/llmtrain/shell/completion.h"

namespace llmtrain::app {

// How the value of --set can go on: keys as "training.steps=", and after "=" the words that the key accepts.
Completions complete_setting(const std::string& written);

}  // namespace llmtrain::app
