// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>

#include "core/tokenizer/tokenizer.h"

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace llmtrain {

// A .model file of SentencePiece (Kudo and Richardson 2018, arXiv:1808.06226), read by its own library. A document
// begins with the model's <s>, unless the tokenizer_config.json beside the file has "add_bos_token": false, and ends
// with its </s>, where it has them.
class SentencePieceTokenizer final : public Tokenizer {
 public:
  // Throws Error(missing_input), or Error(bad_data) where a file is damaged.
  explicit SentencePieceTokenizer(const std::filesystem::path& file);

  std::unique_ptr<TextEncoder> make_encoder() const override;
  std::string decode(std::span<const std::int64_t> ids) const override;
  // The library removes a text's first space, and replaces bytes that are no whole character: here both stay.
  std::string decode_continuation(std::span<const std::int64_t> ids) const override;
  std::int64_t vocab_size() const override;
  const DocumentMarks& marks() const override { return marks_; }
  std::optional<TokenId> id_of_token(std::string_view token) const override;

 private:
  std::shared_ptr<const sentencepiece::SentencePieceProcessor> model_;
  DocumentMarks marks_;
};

}  // namespace llmtrain
