// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/bpe_encoder.h"

#include <spdlog/fmt/fmt.h>

#include <limits>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/tokenizer/pieces/normalizer.h"

namespace llmtrain {

BpeEncoder::BpeEncoder(const HuggingFaceTokenizer& tokenizer)
    : tokenizer_(tokenizer), splitter_(tokenizer.pre_tokenizer_) {}

void BpeEncoder::encode(std::string_view text, std::vector<TokenId>& ids) {
  // Places in a word are 32-bit numbers, and a word may be as long as the text.
  if (text.size() > std::numeric_limits<std::int32_t>::max())
    throw Error(ExitCode::bad_data, "a document of 2 GiB or more cannot be tokenised; split it");
  ids_ = &ids;
  while (!text.empty()) {
    const std::size_t valid = well_formed_length(text);
    tokenizer_.found_first_->cut(
        text.substr(0, valid), [this](std::string_view part) { encode_valid(part); },
        [this](TokenId id) { ids_->push_back(id); });
    text.remove_prefix(valid);
    if (text.empty()) break;
    encode_word(text.substr(0, 1));
    text.remove_prefix(1);
  }
}

void BpeEncoder::encode_valid(std::string_view text) {
  std::string composed;
  if (tokenizer_.composes_characters_ && may_need_composition(text)) {
    composed = compose_characters(text);
    text = composed;
  }
  tokenizer_.found_after_->cut(
      text, [this](std::string_view part) { encode_normalized(part); }, [this](TokenId id) { ids_->push_back(id); });
}

void BpeEncoder::encode_normalized(std::string_view text) {
  splitter_.split(text, [this](std::string_view word) { encode_word(word); });
}

void BpeEncoder::encode_word(std::string_view word) {
  if (is_abandoned()) throw Error(ExitCode::stopped, "a text was abandoned while it was tokenised");
  if (cache_.append(word, *ids_)) return;
  const auto whole = tokenizer_.ids_of_words_.empty() ? tokenizer_.ids_of_words_.end()
                                                      : tokenizer_.ids_of_words_.find(std::string(word));
  if (whole != tokenizer_.ids_of_words_.end()) {
    word_.assign(1, whole->second);
  } else {
    split_into_bytes(word);
    tokenizer_.merges_->apply(word_, workspace_);
  }
  cache_.store(word, word_);
  ids_->insert(ids_->end(), word_.begin(), word_.end());
}

void BpeEncoder::split_into_bytes(std::string_view word) {
  word_.clear();
  bool is_after_unknown = false;
  for (const char c : word) {
    const auto byte = static_cast<unsigned char>(c);
    const TokenId id = tokenizer_.ids_of_bytes_[byte];
    const auto& unknown = tokenizer_.unknown_;
    if (id >= 0) {
      word_.push_back(id);
    } else if (!unknown.id) {
      throw Error(ExitCode::bad_data,
                  fmt::format("{}: /model/vocab has no token for the byte 0x{:02X}, which the text holds, and no "
                              "unk_token; use a tokenizer with all 256 bytes",
                              tokenizer_.file_.string(), byte));
    } else if (!is_after_unknown || !unknown.is_fused) {
      word_.push_back(*unknown.id);
    }
    is_after_unknown = id < 0;
  }
}

}  // namespace llmtrain
