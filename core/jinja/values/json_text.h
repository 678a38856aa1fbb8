// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

struct JsonStyle {
  bool ensure_ascii = false;
  std::optional<std::string> indent;  // what a level is indented by; without it the text has one line
  std::string between_items = ", ";
  std::string after_key = ": ";
  bool sort_keys = false;
};

// As Python's json.dumps(). Refuses values that are no JSON, as it does.
std::string json_text(const Value& value, const JsonStyle& style);

}  // namespace llmtrain::jinja
