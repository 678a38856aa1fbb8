// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/normalizers/simple_normalizers.h"

#include <cstddef>

#include "core/tokenizer/normalizers/changed_characters.h"
#include "core/tokenizer/pieces/byte_level.h"

namespace llmtrain {

void WritesBytes::apply(NormalizedText& text) const { text.text = token_of_bytes(text.text); }

void append_lower_case(char32_t code, std::string& text) {
  append_character(first_of_lower_case(code), text);
  // The only character whose lower case is two, whatever is around it.
  if (code == 0x130) append_character(0x307, text);
}

void LowersCase::apply(NormalizedText& text) const {
  change_characters(text, [](char32_t code, std::string& changed) {
    if (code >= 0x80) {
      append_lower_case(code, changed);
    } else {
      changed.push_back(static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code));
    }
  });
}

void TakesNormalForm::apply(NormalizedText& text) const {
  if (may_change(text.text, form_)) text.text = normal_form(text.text, form_);
}

void CleansForTranslation::apply(NormalizedText& text) const {
  change_characters(text, [](char32_t code, std::string& changed) {
    const bool is_control = (code >= 1 && code <= 8) || code == 0xB || (code >= 0xE && code <= 0x1F) || code == 0x7F ||
                            code == 0x8F || code == 0x9F;
    if (is_control) return;
    const bool is_space = (code >= 9 && code <= 0xD) || code == 0x1680 || (code >= 0x200B && code <= 0x200F) ||
                          code == 0x2028 || code == 0x2029 || code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
    append_character(is_space ? U' ' : code, changed);
  });
}

void Prepends::apply(NormalizedText& text) const {
  if (!text.text.empty()) text.text.insert(0, prefix_);
}

void Replaces::apply(NormalizedText& text) const {
  // What replaces several characters stands for the last of them; nothing stands for a first one that goes.
  const std::size_t first = replacement_.characters_at_start(text.text);
  if (first > 1 || (first == 1 && replacement_.content().empty())) text.begins_at_start = false;
  text.text = replacement_.replaced(text.text);
}

Strips::Strips(const JsonFields& section)
    : left_(section.flag("strip_left", false)), right_(section.flag("strip_right", false)) {}

void Strips::apply(NormalizedText& text) const {
  std::string_view rest = text.text;
  while (left_ && !rest.empty() && is_white_space(first_character(rest).code))
    rest.remove_prefix(first_character(rest).bytes);
  if (rest.size() < text.text.size()) text.begins_at_start = false;
  while (right_ && !rest.empty() && is_white_space(last_character(rest).code))
    rest.remove_suffix(last_character(rest).bytes);
  text.text = std::string(rest);
}

void StripsAccents::apply(NormalizedText& text) const {
  change_characters(text, [](char32_t code, std::string& changed) {
    if (!is_combining_mark(code)) append_character(code, changed);
  });
}

}  // namespace llmtrain
