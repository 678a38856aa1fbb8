// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include "apps/llmtrain/commands.h"

namespace llmtrain::app {

// `llmtrain checkpoint export` and `llmtrain checkpoint import`.
void add_export(CLI::App& parent, Action& action);
void add_import(CLI::App& parent, Action& action);

}  // namespace llmtrain::app
