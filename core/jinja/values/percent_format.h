// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// As Python's `format % values`: values are a tuple, a dictionary for "%(name)s", or one value. Refuses what Python
// refuses, and the flag #.
std::string percent_formatted(std::string_view format, const Value& values);

}  // namespace llmtrain::jinja
