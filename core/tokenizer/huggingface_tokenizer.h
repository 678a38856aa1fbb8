// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/tokenizer/added_tokens.h"
#include "core/tokenizer/bpe_merges.h"
#include "core/tokenizer/pieces/json_fields.h"
#include "core/tokenizer/pieces/pre_tokenizer.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// Byte-level BPE from a tokenizer.json of Hugging Face's `tokenizers` (GPT-2, Llama 3, Qwen and their like), with that
// package's ids. Bytes that are not UTF-8, which it refuses, are encoded byte by byte, so that decode() restores them.
class HuggingFaceTokenizer final : public Tokenizer {
 public:
  // Throws Error(missing_input), or Error(bad_data) with the place in the file of what is wrong or not supported.
  explicit HuggingFaceTokenizer(const std::filesystem::path& file);

  std::unique_ptr<TextEncoder> make_encoder() const override;
  std::string decode(std::span<const std::int64_t> ids) const override;
  std::int64_t vocab_size() const override { return static_cast<std::int64_t>(text_of_id_.size()); }
  const DocumentMarks& marks() const override { return marks_; }

 private:
  friend class BpeEncoder;
  using Vocabulary = std::unordered_map<std::string, TokenId>;

  struct Unknown {
    std::optional<TokenId> id;
    bool is_fused = false;  // one id for several in a row
  };

  HuggingFaceTokenizer(const std::filesystem::path& file, const nlohmann::json& root);

  Vocabulary read_vocabulary(const JsonFields& vocabulary);
  void read_model(const JsonFields& model, const Vocabulary& vocabulary);
  void read_merges(const JsonFields& merges, const Vocabulary& vocabulary);
  std::vector<AddedToken> read_added_tokens(const JsonFields& root, const Vocabulary& vocabulary);
  void take_id(TokenId id, std::string text);

  std::filesystem::path file_;
  PreTokenizer pre_tokenizer_;
  bool composes_characters_;  // normal form C first
  std::vector<std::optional<std::string>> text_of_id_;
  Vocabulary ids_of_words_;                // by bytes; only where words in the vocabulary are not merged
  std::array<TokenId, 256> ids_of_bytes_;  // -1 for none
  Unknown unknown_;
  std::optional<BpeMerges> merges_;
  DocumentMarks marks_;
  std::optional<AddedTokenFinder> found_first_;  // in the text as it is
  std::optional<AddedTokenFinder> found_after_;  // in normalized text
};

}  // namespace llmtrain
