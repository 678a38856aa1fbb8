// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/jinja/values/arguments.h"

namespace llmtrain::jinja {

// As Python's format.format(...): fields such as {}, {0}, {name}, {0.attribute}, {0[key]}, {!r} and {:>8}.
std::string brace_formatted(std::string_view format, const Arguments& arguments);

}  // namespace llmtrain::jinja
