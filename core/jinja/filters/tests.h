// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "core/jinja/values/arguments.h"
#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// What stands behind "is".
using Test = bool (*)(const Value& value, const Arguments& arguments);

// Null for a name that no test of Jinja has.
Test find_test(std::string_view name);

}  // namespace llmtrain::jinja
