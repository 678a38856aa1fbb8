// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/normalizers/normalizer.h"

namespace llmtrain {

// "Precompiled": the table of a SentencePiece model ("precompiled_charsmap") that maps characters to texts, such as its
// nmt_nfkc. Its trie is a double array as darts-clone writes it. As in the `tokenizers` package, what a grapheme of up
// to five bytes becomes is what its shortest prefix in the table becomes.
class PrecompiledCharacters final : public NormalizerStep {
 public:
  // Throws Error(bad_data) for a table that is damaged.
  explicit PrecompiledCharacters(const JsonFields& section);
  void apply(NormalizedText& text) const override;

 private:
  // What a grapheme or character becomes; nothing where it stays.
  std::optional<std::string_view> replacement_of(std::string_view part) const;

  std::vector<std::uint32_t> trie_;
  std::string texts_;  // each ends with a zero byte
};

}  // namespace llmtrain
