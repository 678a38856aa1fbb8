// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/normalizers/bert_normalizer.h"

#include "core/tokenizer/normalizers/changed_characters.h"
#include "core/tokenizer/normalizers/simple_normalizers.h"

namespace llmtrain {
namespace {

// Blocks of Chinese characters, without kana and Hangul. The package's list leaves out U+2B820 to U+2B91F.
bool is_chinese(char32_t code) {
  return (code >= 0x4E00 && code <= 0x9FFF) || (code >= 0x3400 && code <= 0x4DBF) ||
         (code >= 0x20000 && code <= 0x2A6DF) || (code >= 0x2A700 && code <= 0x2B81F) ||
         (code >= 0x2B920 && code <= 0x2CEAF) || (code >= 0xF900 && code <= 0xFAFF) ||
         (code >= 0x2F800 && code <= 0x2FA1F);
}

bool is_line_space(char32_t code) { return code == '\t' || code == '\n' || code == '\r'; }

}  // namespace

BertNormalizer::BertNormalizer(const JsonFields& section)
    : cleans_text_(section.flag("clean_text", true)),
      separates_chinese_(section.flag("handle_chinese_chars", true)),
      lowers_case_(section.flag("lowercase", true)),
      strips_accents_(section.flag("strip_accents", lowers_case_)) {}

void BertNormalizer::apply(NormalizedText& text) const {
  change_characters(text, [this](char32_t code, std::string& changed) {
    const bool goes = code == 0xFFFD || (is_other(code) && !is_line_space(code));
    if (cleans_text_ && goes) return;
    if (separates_chinese_ && is_chinese(code)) {
      changed.push_back(' ');
      append_character(code, changed);
      changed.push_back(' ');
    } else if (cleans_text_ && is_white_space(code)) {
      changed.push_back(' ');
    } else {
      append_character(code, changed);
    }
  });
  if (strips_accents_) {
    if (may_change(text.text, NormalForm::d)) {
      text.text = normal_form(text.text, NormalForm::d);
      change_characters(text, [](char32_t code, std::string& changed) {
        if (!is_nonspacing_mark(code)) append_character(code, changed);
      });
    }
  }
  if (lowers_case_) LowersCase().apply(text);
}

}  // namespace llmtrain
