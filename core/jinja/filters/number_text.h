// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace llmtrain::jinja {

// The number that a text is for Python's int(text, base) and float(text). Empty where Python refuses the text;
// integers beyond 64 bits are refused.
std::optional<std::int64_t> read_integer(std::string_view text, std::int64_t base);
std::optional<double> read_float(std::string_view text);

}  // namespace llmtrain::jinja
