// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// Appends the ids of a document with the tokenizer's marks around them. `encoder` is one of the tokenizer.
inline void encode_document(const Tokenizer& tokenizer, TextEncoder& encoder, std::string_view text,
                            std::vector<TokenId>& ids) {
  const DocumentMarks& marks = tokenizer.marks();
  ids.insert(ids.end(), marks.begin.begin(), marks.begin.end());
  encoder.encode(text, ids);
  ids.insert(ids.end(), marks.end.begin(), marks.end.end());
}

}  // namespace llmtrain
