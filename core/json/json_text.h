// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmtrain {

// A document with its keys in the order in which they were written.
using Json = nlohmann::ordered_json;

struct JsonText {
  Json value;
  std::vector<std::string> duplicates;  // JSON pointers of keys that were given again; the first value stays
  std::string error;  // why the text is not JSON, in plain words with line and column; empty for valid JSON
};

// The deepest allowed nesting of lists and objects.
inline constexpr std::size_t deepest_nesting = 64;

// Strict JSON (RFC 8259): no comments, no trailing commas, no NaN, no numbers beyond a double, no byte order mark,
// UTF-8 only, at most most_json_memory (core/json/json_memory.h). Never throws because of the text.
JsonText parse_json(std::string_view text);

// Appends a key to `pointer`, escaped as in RFC 6901, and the inverse.
std::string append_key(const std::string& pointer, std::string_view key);
std::vector<std::string> split_pointer(std::string_view pointer);

// One line of at most about 60 characters that shows a value or a key in a message.
std::string shown_value(const Json& value);
std::string shown_text(std::string_view text);

// The JSON number that a text such as ".5", "+3" or "1_000" means, which JSON does not allow, or empty.
std::string number_meant(std::string_view text);

// null where there is none.
Json number_or_null(const std::optional<double>& number);

// "a string", "a list", …
std::string_view kind_of(const Json& value);

}  // namespace llmtrain
