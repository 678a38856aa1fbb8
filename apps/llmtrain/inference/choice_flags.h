// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "parallel/runtime/runtime_interface.h"

namespace llmtrain::app {

// The flags of what decides on the next token, and when a text ends. The request outlives the parsing.
void add_choice_flags(CLI::App& command, SampleRequest& request);

}  // namespace llmtrain::app
