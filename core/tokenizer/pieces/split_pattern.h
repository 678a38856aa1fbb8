// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "core/tokenizer/pieces/json_fields.h"
#include "core/tokenizer/pieces/regex.h"

namespace llmtrain {

// The pattern of a section {"String": …}, which matches that text, or {"Regex": …}. Throws Error(bad_data).
Regex split_pattern(const JsonFields& section);

// A pattern of `section`, compiled. Throws Error(bad_data) with the section's place.
Regex compiled_pattern(const JsonFields& section, std::string_view pattern);

}  // namespace llmtrain
