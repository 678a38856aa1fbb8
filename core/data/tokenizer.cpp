// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokenizer.h"

#include "core/base/error.h"

namespace llmtrain {

void require_byte_tokenizer(const TokenizerRecipe& tokenizer) {
  if (tokenizer.kind == TokenizerKind::bytes) return;
  const std::string kind = tokenizer.kind == TokenizerKind::sentencepiece ? "sentencepiece" : "huggingface";
  throw Error(ExitCode::bad_recipe, "/data/tokenizer: {\"" + kind + "\": \"" + tokenizer.file +
                                        "\"} cannot be used on text yet; give a tokenised .bin file, or \"bytes\"");
}

std::vector<std::int64_t> encode(const TokenizerRecipe& tokenizer, std::string_view text) {
  require_byte_tokenizer(tokenizer);
  std::vector<std::int64_t> tokens;
  tokens.reserve(text.size());
  // char may be signed: bytes from 0x80 on would become negative ids.
  for (const char byte : text) tokens.push_back(static_cast<unsigned char>(byte));
  return tokens;
}

std::string decode(const TokenizerRecipe& tokenizer, std::span<const std::int64_t> tokens) {
  require_byte_tokenizer(tokenizer);
  // U+FFFD: ids beyond bytes occur where the vocabulary is padded.
  constexpr std::string_view replacement_character = "\xEF\xBF\xBD";
  std::string text;
  text.reserve(tokens.size());
  for (const std::int64_t token : tokens) {
    if (token >= 0 && token < 256) {
      text.push_back(static_cast<char>(token));
    } else {
      text.append(replacement_character);
    }
  }
  return text;
}

}  // namespace llmtrain
