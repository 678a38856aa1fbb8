// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace llmtrain::jinja {

// As Python's methods of str with these names, by Unicode's full mappings: "ß" becomes "SS".
std::string upper(std::string_view bytes);
std::string lower(std::string_view bytes);
std::string title(std::string_view bytes);
std::string capitalize(std::string_view bytes);
std::string swapcase(std::string_view bytes);

bool is_upper_letter(char32_t character);
bool is_lower_letter(char32_t character);
// Those that are written as the first letter of a title, such as U+01C5.
bool is_title_letter(char32_t character);

}  // namespace llmtrain::jinja
