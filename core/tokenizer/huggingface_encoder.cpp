// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/huggingface_encoder.h"

#include <limits>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/tokenizer/byte_tokenizer.h"

namespace llmtrain {
namespace {

// Each byte that is no UTF-8 becomes U+FFFD.
std::string with_replacements(std::string_view text) {
  std::string valid;
  while (true) {
    const std::size_t size = well_formed_length(text);
    valid += text.substr(0, size);
    if (size == text.size()) return valid;
    valid += replacement_character;
    text.remove_prefix(size + 1);
  }
}

}  // namespace

HuggingFaceEncoder::HuggingFaceEncoder(const HuggingFaceTokenizer& tokenizer)
    : tokenizer_(tokenizer), model_(tokenizer.model_->make_encoder()), splitter_(tokenizer.pre_tokenizer_) {}

void HuggingFaceEncoder::encode(std::string_view text, std::vector<TokenId>& ids) {
  // Places in a word are 32-bit numbers, and a word may be as long as the text.
  if (text.size() > std::numeric_limits<std::int32_t>::max())
    throw Error(ExitCode::bad_data, "a document of 2 GiB or more cannot be tokenised; split it");
  ids_ = &ids;
  std::size_t valid = well_formed_length(text);
  if (valid < text.size() && !tokenizer_.model_->reads_bytes()) return encode_valid(with_replacements(text), true);
  for (bool is_first = true; !text.empty(); is_first = false) {
    encode_valid(text.substr(0, valid), is_first);
    text.remove_prefix(valid);
    if (text.empty()) break;
    encode_word(text.substr(0, 1));
    text.remove_prefix(1);
    valid = well_formed_length(text);
  }
}

void HuggingFaceEncoder::encode_valid(std::string_view text, bool is_first) {
  tokenizer_.found_first_->cut(
      text, [&](std::string_view part) { encode_part(part, is_first && part.data() == text.data()); },
      [this](TokenId id) { ids_->push_back(id); });
}

void HuggingFaceEncoder::encode_part(std::string_view text, bool is_first) {
  if (tokenizer_.normalizer_.changes_nothing()) return encode_normalized(text, is_first);
  NormalizedText normalized{std::string(text), is_first};
  tokenizer_.normalizer_.apply(normalized);
  encode_normalized(normalized.text, normalized.begins_at_start);
}

void HuggingFaceEncoder::encode_normalized(std::string_view text, bool is_first) {
  tokenizer_.found_after_->cut(
      text,
      [&](std::string_view part) {
        splitter_.split(part, is_first && part.data() == text.data(),
                        [this](std::string_view word) { encode_word(word); });
      },
      [this](TokenId id) { ids_->push_back(id); });
}

void HuggingFaceEncoder::encode_word(std::string_view word) {
  if (is_abandoned()) throw Error(ExitCode::stopped, "a text was abandoned while it was tokenised");
  if (cache_.append(word, *ids_)) return;
  model_->encode(word, word_);
  cache_.store(word, word_);
  ids_->insert(ids_->end(), word_.begin(), word_.end());
}

}  // namespace llmtrain
