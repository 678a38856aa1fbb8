// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/huggingface_tokenizer.h"

#include <algorithm>
#include <utility>

#include "core/tokenizer/bpe_encoder.h"
#include "core/tokenizer/byte_level.h"
#include "core/tokenizer/byte_tokenizer.h"
#include "core/tokenizer/document_marks.h"
#include "core/tokenizer/pieces/normalizer.h"

namespace llmtrain {
namespace {

constexpr const char* use_sentencepiece =
    "; supported is byte-level BPE; tokenizers made with SentencePiece are read from their .model file";

// {"type": "NFC"}, also in a Sequence, or none.
bool reads_nfc(const JsonFields& section) {
  const std::string kind = section.text("type");
  if (kind == "NFC") return true;
  if (kind != "Sequence")
    section.fail("\"" + kind + "\" is not supported; supported are NFC and none" + use_sentencepiece);
  bool composes = false;
  const JsonFields steps = section.section("normalizers");
  for (std::size_t i = 0; i < steps.size(); ++i) composes = reads_nfc(steps.element(i)) || composes;
  return composes;
}

// What would change ids without a word from us.
void refuse_unsupported(const JsonFields& root) {
  for (const char* key : {"truncation", "padding"})
    if (root.has(key)) root.section(key).fail("is set, which would cut or fill documents; set it to null");
  const JsonFields model = root.section("model");
  // Old files of GPT-2 do not name the kind.
  if (model.has("type") && model.text("type") != "BPE")
    model.fail("\"" + model.text("type") + "\" is not supported" + use_sentencepiece);
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (model.has(key) && !model.text(key).empty())
      model.section(key).fail("is not supported" + std::string(use_sentencepiece));
  if (model.has("dropout") && model.section("dropout").value() != 0)
    model.section("dropout").fail("merges that are left out at random are not supported; set it to null");
  model.refuse_flag("byte_fallback");
}

// "left right", or a list of two.
std::pair<std::string, std::string> parts_of(const JsonFields& merge) {
  const nlohmann::json& value = merge.value();
  if (const auto* text = value.get_ptr<const std::string*>()) {
    const std::size_t space = text->find(' ');
    if (space != std::string::npos) return {text->substr(0, space), text->substr(space + 1)};
  } else if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
    return {value[0].get<std::string>(), value[1].get<std::string>()};
  }
  merge.fail("is neither \"LEFT RIGHT\" nor a list of two tokens");
}

}  // namespace

HuggingFaceTokenizer::HuggingFaceTokenizer(const std::filesystem::path& file)
    : HuggingFaceTokenizer(file, read_json_file(file)) {}

HuggingFaceTokenizer::HuggingFaceTokenizer(const std::filesystem::path& file, const nlohmann::json& root)
    : file_(file), pre_tokenizer_([&] {
        const JsonFields fields(file, root, "");
        // First, as it says best what kind of tokenizer a file holds.
        refuse_unsupported(fields);
        if (!fields.has("pre_tokenizer")) fields.fail("has no \"pre_tokenizer\"" + std::string(use_sentencepiece));
        return PreTokenizer(fields.section("pre_tokenizer"));
      }()) {
  const JsonFields fields(file, root, "");
  composes_characters_ = fields.has("normalizer") && reads_nfc(fields.section("normalizer"));
  const JsonFields model = fields.section("model");
  const Vocabulary vocabulary = read_vocabulary(model.section("vocab"));
  read_model(model, vocabulary);
  const std::vector<AddedToken> added = read_added_tokens(fields, vocabulary);
  marks_ = document_marks(file, fields, added);
  std::vector<AddedToken> first, after;
  for (AddedToken token : added) {
    if (token.is_normalized && composes_characters_) token.text = compose_characters(token.text);
    (token.is_normalized ? after : first).push_back(std::move(token));
  }
  found_first_.emplace(std::move(first));
  found_after_.emplace(std::move(after));
}

void HuggingFaceTokenizer::take_id(TokenId id, std::string text) {
  if (static_cast<std::size_t>(id) >= text_of_id_.size()) text_of_id_.resize(static_cast<std::size_t>(id) + 1);
  text_of_id_[static_cast<std::size_t>(id)] = std::move(text);
}

HuggingFaceTokenizer::Vocabulary HuggingFaceTokenizer::read_vocabulary(const JsonFields& vocabulary) {
  // Ids are dense but for a few; one far beyond the tokens' number is damage, and would take its memory.
  constexpr std::size_t most_gaps = 1 << 20;
  Vocabulary ids;
  if (!vocabulary.value().is_object()) vocabulary.fail("is not an object of tokens and their ids");
  for (const auto& [token, value] : vocabulary.value().items()) {
    const std::int64_t id = vocabulary.whole_number(token.c_str());
    if (static_cast<std::size_t>(id) > vocabulary.value().size() + most_gaps)
      vocabulary.fail("has id " + std::to_string(id) + " among " + std::to_string(vocabulary.value().size()) +
                      " tokens");
    ids.emplace(token, static_cast<TokenId>(id));
    take_id(static_cast<TokenId>(id), bytes_of_token(token).value_or(token));
  }
  return ids;
}

void HuggingFaceTokenizer::read_model(const JsonFields& model, const Vocabulary& vocabulary) {
  ids_of_bytes_.fill(-1);
  const bool keeps_words = model.flag("ignore_merges", false);
  for (const auto& [token, id] : vocabulary) {
    const auto bytes = bytes_of_token(token);
    if (!bytes) continue;
    if (bytes->size() == 1) ids_of_bytes_[static_cast<unsigned char>(bytes->front())] = id;
    if (keeps_words) ids_of_words_.emplace(*bytes, id);
  }
  if (model.has("unk_token")) {
    const auto unknown = vocabulary.find(model.text("unk_token"));
    if (unknown == vocabulary.end()) model.section("unk_token").fail("is not in /model/vocab");
    unknown_ = {unknown->second, model.flag("fuse_unk", false)};
  }
  read_merges(model.section("merges"), vocabulary);
}

void HuggingFaceTokenizer::read_merges(const JsonFields& merges, const Vocabulary& vocabulary) {
  const std::size_t count = merges.size();
  merges_.emplace(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    const JsonFields merge = merges.element(rank);
    const auto [left, right] = parts_of(merge);
    const auto id_of = [&](const std::string& token) {
      const auto found = vocabulary.find(token);
      if (found == vocabulary.end()) merge.fail("\"" + token + "\" is not in /model/vocab");
      return found->second;
    };
    const TokenId first = id_of(left), second = id_of(right);
    merges_->add(first, second, {static_cast<std::uint32_t>(rank), id_of(left + right)});
  }
}

std::vector<AddedToken> HuggingFaceTokenizer::read_added_tokens(const JsonFields& root, const Vocabulary& vocabulary) {
  std::vector<AddedToken> added;
  if (!root.has("added_tokens")) return added;
  const JsonFields tokens = root.section("added_tokens");
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const JsonFields token = tokens.element(i);
    AddedToken one{.id = static_cast<TokenId>(token.whole_number("id")),
                   .text = token.text("content"),
                   .takes_space_before = token.flag("lstrip", false),
                   .takes_space_after = token.flag("rstrip", false),
                   .is_normalized = token.flag("normalized", false)};
    token.refuse_flag("single_word");
    const auto known = vocabulary.find(one.text);
    if (known != vocabulary.end() && known->second != one.id)
      token.fail("has id " + std::to_string(one.id) + ", in /model/vocab it is " + std::to_string(known->second));
    // As in the vocabulary: an id far beyond all others is damage.
    if (static_cast<std::size_t>(one.id) > text_of_id_.size() + (1 << 20))
      token.fail("has an id far beyond all others");
    take_id(one.id, one.text);
    added.push_back(std::move(one));
  }
  return added;
}

std::unique_ptr<TextEncoder> HuggingFaceTokenizer::make_encoder() const { return std::make_unique<BpeEncoder>(*this); }

std::string HuggingFaceTokenizer::decode(std::span<const std::int64_t> ids) const {
  std::string text;
  for (const std::int64_t id : ids) {
    const bool is_known = id >= 0 && id < vocab_size() && text_of_id_[static_cast<std::size_t>(id)].has_value();
    text += is_known ? std::string_view(*text_of_id_[static_cast<std::size_t>(id)]) : replacement_character;
  }
  return text;
}

}  // namespace llmtrain
