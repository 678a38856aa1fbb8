// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/huggingface_tokenizer.h"

#include <utility>

#include "core/tokenizer/byte_tokenizer.h"
#include "core/tokenizer/document_marks.h"
#include "core/tokenizer/huggingface_encoder.h"
#include "core/tokenizer/models/read_word_model.h"
#include "core/tokenizer/pieces/byte_level.h"
#include "core/tokenizer/post_processor.h"

namespace llmtrain {

HuggingFaceTokenizer::HuggingFaceTokenizer(const std::filesystem::path& file)
    : HuggingFaceTokenizer(file, read_json_file(file)) {}

HuggingFaceTokenizer::HuggingFaceTokenizer(const std::filesystem::path& file, const nlohmann::json& root)
    : vocabulary_(JsonFields(file, root, "").section("model").section("vocab")) {
  const JsonFields fields(file, root, "");
  read_model(fields);
  read_tokens();
  const std::vector<AddedToken> added = read_added_tokens(fields);
  if (fields.has("post_processor")) templates_ = read_templates(fields.section("post_processor"));
  marks_ = document_marks(file, fields, templates_, added);
  const bool splits_special = splits_special_tokens(file);
  std::vector<AddedToken> first, after;
  for (AddedToken token : added) {
    added_.emplace(token.text, token.id);
    // Such a token is decoded to what is found.
    if (token.is_normalized) take_id(token.id, token.text = normalizer_.normalized(std::move(token.text)));
    if (splits_special && token.is_special) continue;
    (token.is_normalized ? after : first).push_back(std::move(token));
  }
  found_first_.emplace(std::move(first));
  found_after_.emplace(std::move(after));
}

void HuggingFaceTokenizer::read_model(const JsonFields& root) {
  if (root.has("normalizer")) normalizer_ = Normalizer(root.section("normalizer"));
  if (root.has("pre_tokenizer")) pre_tokenizer_ = PreTokenizer(root.section("pre_tokenizer"));
  const JsonFields model = root.section("model");
  const bool reads_bytes = pre_tokenizer_.ends_with_bytes() && can_read_bytes(model);
  if (reads_bytes) pre_tokenizer_.keep_bytes();
  model_ = read_word_model(model, vocabulary_, reads_bytes ? BpeModel::Parts::bytes : BpeModel::Parts::characters);
  if (root.has("decoder")) {
    decoder_ = TextDecoder(root.section("decoder"));
  } else if (reads_bytes) {
    decoder_ = TextDecoder::of_bytes();
  }
}

void HuggingFaceTokenizer::take_id(TokenId id, std::string text) {
  if (static_cast<std::size_t>(id) >= text_of_id_.size()) text_of_id_.resize(static_cast<std::size_t>(id) + 1);
  text_of_id_[static_cast<std::size_t>(id)] = std::move(text);
}

void HuggingFaceTokenizer::read_tokens() {
  const auto take = [this](const auto& tokens) {
    for (const auto& [token, id] : tokens)
      take_id(id, decoder_.begins_with_bytes() ? bytes_of_token(token).value_or(token) : token);
  };
  take(vocabulary_.repeated());
  take(vocabulary_.tokens());
}

std::vector<AddedToken> HuggingFaceTokenizer::read_added_tokens(const JsonFields& root) {
  std::vector<AddedToken> added;
  if (!root.has("added_tokens")) return added;
  const JsonFields tokens = root.section("added_tokens");
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const JsonFields token = tokens.element(i);
    AddedToken one{.id = static_cast<TokenId>(token.whole_number("id")),
                   .text = token.text("content"),
                   .takes_space_before = token.flag("lstrip", false),
                   .takes_space_after = token.flag("rstrip", false),
                   .is_single_word = token.flag("single_word", false),
                   .is_normalized = token.flag("normalized", false),
                   .is_special = token.flag("special", false)};
    const auto known = vocabulary_.find(one.text);
    if (known && *known != one.id)
      token.fail("has id " + std::to_string(one.id) + ", in /model/vocab it is " + std::to_string(*known));
    // As in the vocabulary: an id far beyond all others is damage.
    if (static_cast<std::size_t>(one.id) > text_of_id_.size() + Vocabulary::most_gaps)
      token.fail("has an id far beyond all others");
    take_id(one.id, one.text);
    added.push_back(std::move(one));
  }
  return added;
}

std::optional<TokenId> HuggingFaceTokenizer::id_of_token(std::string_view token) const {
  const auto added = added_.find(token);
  return added != added_.end() ? added->second : vocabulary_.find(token);
}

std::unique_ptr<TextEncoder> HuggingFaceTokenizer::make_encoder() const {
  return std::make_unique<HuggingFaceEncoder>(*this);
}

std::string HuggingFaceTokenizer::decode(std::span<const std::int64_t> ids, DecodedPlace place) const {
  std::vector<std::string> tokens;
  tokens.reserve(ids.size());
  for (const std::int64_t id : ids) {
    const bool is_known = id >= 0 && id < vocab_size() && text_of_id_[static_cast<std::size_t>(id)].has_value();
    tokens.push_back(is_known ? *text_of_id_[static_cast<std::size_t>(id)] : std::string(replacement_character));
  }
  return decoder_.decode(std::move(tokens), place);
}

std::string HuggingFaceTokenizer::decode(std::span<const std::int64_t> ids) const {
  return decode(ids, DecodedPlace::beginning);
}

std::string HuggingFaceTokenizer::decode_continuation(std::span<const std::int64_t> ids) const {
  return decode(ids, DecodedPlace::continuation);
}

}  // namespace llmtrain
