// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "core/json/json_text.h"

namespace llmtrain {

// A key's value in at most `width` columns; "–" for null, which stands for a key that a recipe lacks.
std::string setting_text(const Json& value, std::size_t width);

}  // namespace llmtrain
