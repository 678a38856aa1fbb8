// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// As Python's str() and repr().
std::string str(const Value& value);
std::string repr(const Value& value);
std::string repr(std::string_view bytes);

// The shortest text that reads back as the number, as Python prints it.
std::string float_text(double number);

// The text of a value that is one or is printed as one. Refuses markup, whose methods escape what they are given.
std::string plain_text(const Value& value);

}  // namespace llmtrain::jinja
