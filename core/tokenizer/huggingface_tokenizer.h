// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tokenizer/added_tokens.h"
#include "core/tokenizer/decoders/decoder.h"
#include "core/tokenizer/models/vocabulary.h"
#include "core/tokenizer/models/word_model.h"
#include "core/tokenizer/normalizers/normalizer.h"
#include "core/tokenizer/pieces/json_fields.h"
#include "core/tokenizer/pieces/pre_tokenizer.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// A tokenizer.json of Hugging Face's `tokenizers`: BPE of bytes (GPT-2, Llama 3, Qwen) or characters (Llama 2, Mistral,
// Gemma), WordPiece (BERT), Unigram (T5, XLM-R) or WordLevel, with that package's ids. Bytes that are not UTF-8, which
// it refuses, are encoded byte by byte, so that decode() restores them, by a model that has tokens for bytes, and as
// U+FFFD by others. Special tokens are found in texts, unless "split_special_tokens" of the
// tokenizer_config.json beside the file says that they are text there. "truncation" and "padding" of the file are left
// out, as transformers does unless it is asked.
class HuggingFaceTokenizer final : public Tokenizer {
 public:
  // Throws Error(missing_input), or Error(bad_data) with the place in the file of what is wrong or not supported.
  explicit HuggingFaceTokenizer(const std::filesystem::path& file);

  std::unique_ptr<TextEncoder> make_encoder() const override;
  std::string decode(std::span<const std::int64_t> ids) const override;
  std::string decode_continuation(std::span<const std::int64_t> ids) const override;
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(text_of_id_.size()); }
  const DocumentMarks& marks() const override { return marks_; }
  std::optional<TokenId> id_of_token(std::string_view token) const override;
  const TextTemplates& templates() const override { return templates_; }

 private:
  friend class HuggingFaceEncoder;

  HuggingFaceTokenizer(const std::filesystem::path& file, const nlohmann::json& root);

  void read_model(const JsonFields& root);
  void read_tokens();
  std::vector<AddedToken> read_added_tokens(const JsonFields& root);
  void take_id(TokenId id, std::string text);
  std::string decode(std::span<const std::int64_t> ids, DecodedPlace place) const;

  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  Vocabulary vocabulary_;
  std::unique_ptr<const WordModel> model_;
  TextDecoder decoder_;
  std::vector<std::optional<std::string>> text_of_id_;  // as the decoder is given it
  std::map<std::string, TokenId, std::less<>> added_;
  DocumentMarks marks_;
  TextTemplates templates_;
  std::optional<AddedTokenFinder> found_first_;  // in the text as it is
  std::optional<AddedTokenFinder> found_after_;  // in normalized text
};

}  // namespace llmtrain
