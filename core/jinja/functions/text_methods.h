// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/jinja/values/arguments.h"
#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// A method of Python's str, bound to the text. Empty where there is none of this name; refuses the rare ones that are
// not supported here.
std::optional<Value> text_method(const Value& text, std::string_view name);

// The methods that take texts apart, by their names in Python.
Value split(const std::string& self, const Arguments& arguments);
Value rsplit(const std::string& self, const Arguments& arguments);
Value splitlines(const std::string& self, const Arguments& arguments);
Value partition(const std::string& self, const Arguments& arguments);
Value rpartition(const std::string& self, const Arguments& arguments);

// The methods that ask what characters a text has.
Value isalnum(const std::string& self, const Arguments& arguments);
Value isalpha(const std::string& self, const Arguments& arguments);
Value isascii(const std::string& self, const Arguments& arguments);
Value isdecimal(const std::string& self, const Arguments& arguments);
Value isdigit(const std::string& self, const Arguments& arguments);
Value islower(const std::string& self, const Arguments& arguments);
Value isnumeric(const std::string& self, const Arguments& arguments);
Value isprintable(const std::string& self, const Arguments& arguments);
Value isspace(const std::string& self, const Arguments& arguments);
Value istitle(const std::string& self, const Arguments& arguments);
Value isupper(const std::string& self, const Arguments& arguments);

bool is_lower_text(std::string_view bytes);
bool is_upper_text(std::string_view bytes);

// As Python's str.center(), which rounds otherwise than a format does.
std::string centered(std::string_view bytes, std::int64_t width, std::string_view fill = " ");

// As Python's str.join(). Refuses elements that are no texts.
std::string joined_texts(std::string_view between, const Value& elements);

}  // namespace llmtrain::jinja
