// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/pieces/split_pattern.h"

#include <cctype>
#include <stdexcept>
#include <string>

namespace llmtrain {
namespace {

// A pattern that matches `text` itself.
std::string literal_pattern(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::ispunct(static_cast<unsigned char>(c)) != 0) pattern.push_back('\\');
    pattern.push_back(c);
  }
  return pattern;
}

}  // namespace

Regex compiled_pattern(const JsonFields& section, std::string_view pattern) {
  try {
    return Regex(pattern);
  } catch (const std::invalid_argument& error) {
    section.fail("the pattern " + std::string(pattern) + " cannot be used: " + error.what());
  }
}

Regex split_pattern(const JsonFields& section) {
  return compiled_pattern(section,
                          section.has("Regex") ? section.text("Regex") : literal_pattern(section.text("String")));
}

}  // namespace llmtrain
