// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/tokenizer/models/bpe_merges.h"
#include "core/tokenizer/models/vocabulary.h"
#include "core/tokenizer/models/word_model.h"

namespace llmtrain {

// "BPE": a word's smallest parts, which are merged. These are its bytes, or its characters, of which those without a
// token may fall back to their bytes' tokens. The vocabulary outlives the model.
class BpeModel final : public WordModel {
 public:
  // bytes: the vocabulary writes each byte as one visible character, and words come as bytes.
  enum class Parts { bytes, characters };

  // Throws Error(bad_data).
  BpeModel(const JsonFields& section, const Vocabulary& vocabulary, Parts parts);
  std::unique_ptr<WordEncoder> make_encoder() const override;
  bool reads_bytes() const override { return parts_ == Parts::bytes || falls_back_to_bytes_; }

 private:
  friend class BpeWordEncoder;

  void read_merges(const JsonFields& merges);
  void read_bytes(bool keeps_words);

  const Vocabulary& vocabulary_;
  std::string file_;
  Parts parts_;
  bool falls_back_to_bytes_;
  bool keeps_words_;                                       // that are tokens
  std::string prefix_;                                     // of a part that is not a word's first, in the vocabulary
  std::string suffix_;                                     // of a word's last part
  std::array<TokenId, 256> ids_of_bytes_;                  // -1 for none
  std::unordered_map<std::string, TokenId> ids_of_words_;  // by bytes; only where words are kept
  std::optional<TokenId> unknown_;
  bool fuses_unknown_ = false;  // one token for several in a row
  std::optional<BpeMerges> merges_;
};

}  // namespace llmtrain
