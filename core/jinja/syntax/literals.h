// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// Bytes of the number that begins at `place`, or 0; `is_float` says which kind. After a point no float begins, so that
// "x.0.1" is two indices.
std::size_t number_length(std::string_view source, std::size_t place, bool& is_float);

// The value of what number_length() found. Throws Refused beyond 64 bits.
Value number_value(std::string_view digits, bool is_float);

// A text between quotes without its escapes, which are Python's. Throws Refused for those that it refuses.
std::string unescaped(std::string_view inner);

}  // namespace llmtrain::jinja
