// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// Each byte is one id, 0 to 255; no end-of-text token.
class ByteTokenizer final : public Tokenizer {
 public:
  std::unique_ptr<TextEncoder> make_encoder() const override;
  std::string decode(std::span<const std::int64_t> ids) const override;
  std::int64_t vocab_size() const override { return 256; }
  const DocumentMarks& marks() const override { return marks_; }

 private:
  DocumentMarks marks_;
};

// What decode() writes for an id that a tokenizer does not know.
inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

}  // namespace llmtrain
