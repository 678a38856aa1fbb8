// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "core/tokenizer/normalizers/normalizer.h"
#include "core/tokenizer/pieces/characters.h"

namespace llmtrain {

// Makes each character what `append(code, text)` appends for it, which may be nothing.
template <class Append>
void change_characters(NormalizedText& text, const Append& append) {
  std::string changed;
  changed.reserve(text.text.size());
  bool is_first = true;
  for_each_character(text.text, [&](const Character& next) {
    append(next.code, changed);
    if (is_first && changed.empty()) text.begins_at_start = false;
    is_first = false;
  });
  text.text = std::move(changed);
}

}  // namespace llmtrain
