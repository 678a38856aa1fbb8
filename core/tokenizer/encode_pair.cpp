// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/encode_pair.h"

namespace llmtrain {

TypedIds encode_pair(const Tokenizer& tokenizer, TextEncoder& encoder, std::string_view first,
                     std::optional<std::string_view> second) {
  TypedIds result;
  const TextTemplates& templates = tokenizer.templates();
  for (const TemplatePiece& piece : second ? templates.pair : templates.single) {
    switch (piece.kind) {
      case TemplatePiece::Kind::first_text:
        encoder.encode(first, result.ids);
        break;
      case TemplatePiece::Kind::second_text:
        encoder.encode(*second, result.ids);
        break;
      case TemplatePiece::Kind::marks:
        result.ids.insert(result.ids.end(), piece.marks.begin(), piece.marks.end());
        break;
    }
    result.types.resize(result.ids.size(), piece.type);
  }
  return result;
}

}  // namespace llmtrain
