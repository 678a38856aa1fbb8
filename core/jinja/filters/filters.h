// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "core/jinja/values/arguments.h"
#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// A filter, which makes a value from the one before "|". Refuses what Jinja's refuses.
using Filter = Value (*)(const Value& input, const Arguments& arguments);

// Null for a name that no filter of transformers' environment has. The few that no chat template uses refuse to run.
Filter find_filter(std::string_view name);

}  // namespace llmtrain::jinja
