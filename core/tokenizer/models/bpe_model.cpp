// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/models/bpe_model.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/tokenizer/pieces/byte_level.h"
#include "core/tokenizer/pieces/characters.h"

namespace llmtrain {
namespace {

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

std::string text_or_none(const JsonFields& section, const char* key) {
  return section.has(key) ? section.text(key) : "";
}

}  // namespace

class BpeWordEncoder final : public WordEncoder {
 public:
  explicit BpeWordEncoder(const BpeModel& model) : model_(model) {}

  void encode(std::string_view word, std::vector<TokenId>& ids) override {
    if (model_.keeps_words_) {
      if (const auto whole = whole_word(word)) return ids.assign(1, *whole);
    }
    ids.clear();
    holds_unknown_ = false;
    // A byte that is no text.
    const bool is_byte = word.size() == 1 && static_cast<unsigned char>(word.front()) >= 0x80;
    if (model_.parts_ == BpeModel::Parts::bytes) {
      for (const char byte : word) add_byte(byte, ids);
    } else if (is_byte) {
      add(model_.ids_of_bytes_[static_cast<unsigned char>(word.front())], word, ids);
    } else {
      add_characters(word, ids);
    }
    add_held_unknown(ids);
    model_.merges_->apply(ids, workspace_);
  }

 private:
  std::optional<TokenId> whole_word(std::string_view word) const {
    if (model_.parts_ == BpeModel::Parts::characters) return model_.vocabulary_.find(word);
    const auto found = model_.ids_of_words_.find(std::string(word));
    return found == model_.ids_of_words_.end() ? std::nullopt : std::optional<TokenId>(found->second);
  }

  void add_characters(std::string_view word, std::vector<TokenId>& ids) {
    for (std::size_t place = 0; place < word.size();) {
      const std::string_view character = word.substr(place, first_character(word.substr(place)).bytes);
      const bool is_first = place == 0;
      place += character.size();
      const bool is_last = place == word.size();
      std::optional<TokenId> id;
      std::string_view part = character;
      if ((!is_first && !model_.prefix_.empty()) || (is_last && !model_.suffix_.empty())) {
        part_.assign(is_first ? "" : model_.prefix_).append(character).append(is_last ? model_.suffix_ : "");
        part = part_;
      } else if (character.size() == 1) {
        id = ascii_[static_cast<unsigned char>(character.front())];
      }
      if (!id) id = find(part);
      if (*id < 0 && add_bytes(part, ids)) continue;
      add(*id, part, ids);
    }
  }

  // -1 for none.
  TokenId find(std::string_view part) {
    const TokenId id = model_.vocabulary_.find(part).value_or(-1);
    if (part.size() == 1 && static_cast<unsigned char>(part.front()) < 0x80)
      ascii_[static_cast<unsigned char>(part.front())] = id;
    return id;
  }

  // False where not all bytes have tokens.
  bool add_bytes(std::string_view part, std::vector<TokenId>& ids) const {
    if (!model_.falls_back_to_bytes_) return false;
    const auto id_of = [&](char byte) { return model_.ids_of_bytes_[static_cast<unsigned char>(byte)]; };
    if (!std::ranges::all_of(part, [&](char byte) { return id_of(byte) >= 0; })) return false;
    for (const char byte : part) ids.push_back(id_of(byte));
    return true;
  }

  void add_byte(char byte, std::vector<TokenId>& ids) {
    add(model_.ids_of_bytes_[static_cast<unsigned char>(byte)], {&byte, 1}, ids);
  }

  // The token of a part, or of one that has none, which waits for the next token, as it may be one with others.
  void add(TokenId id, std::string_view part, std::vector<TokenId>& ids) {
    if (id < 0) {
      if (!model_.unknown_) refuse(part);
      if (!model_.fuses_unknown_) add_held_unknown(ids);
      holds_unknown_ = true;
      return;
    }
    add_held_unknown(ids);
    ids.push_back(id);
  }

  void add_held_unknown(std::vector<TokenId>& ids) {
    if (holds_unknown_) ids.push_back(*model_.unknown_);
    holds_unknown_ = false;
  }

  [[noreturn]] void refuse(std::string_view part) const {
    if (model_.parts_ == BpeModel::Parts::bytes || !is_utf8(part))
      throw Error(ExitCode::bad_data,
                  fmt::format("{}: /model/vocab has no token for the byte 0x{:02X}, which the text holds, and no "
                              "unk_token; use a tokenizer with all 256 bytes",
                              model_.file_, static_cast<unsigned char>(part.front())));
    throw Error(ExitCode::bad_data,
                fmt::format("{}: /model/vocab has no token for \"{}\", which the text holds, and no unk_token; use a "
                            "tokenizer with an unknown token or with all 256 bytes",
                            model_.file_, message_text(part)));
  }

  const BpeModel& model_;
  BpeMerges::Workspace workspace_;
  std::array<std::optional<TokenId>, 128> ascii_;  // what was looked up
  std::string part_;
  bool holds_unknown_ = false;
};

BpeModel::BpeModel(const JsonFields& section, const Vocabulary& vocabulary, Parts parts)
    : vocabulary_(vocabulary),
      file_(section.file()),
      parts_(parts),
      falls_back_to_bytes_(parts == Parts::characters && section.flag("byte_fallback", false)),
      keeps_words_(section.flag("ignore_merges", false)),
      prefix_(text_or_none(section, "continuing_subword_prefix")),
      suffix_(text_or_none(section, "end_of_word_suffix")) {
  if (section.has("dropout") && section.section("dropout").value() != 0)
    section.section("dropout").fail("merges that are left out at random are not supported; set it to null");
  if (section.has("unk_token")) {
    unknown_ = vocabulary.named(section, "unk_token");
    fuses_unknown_ = section.flag("fuse_unk", false);
  }
  read_bytes(keeps_words_);
  read_merges(section.section("merges"));
}

void BpeModel::read_bytes(bool keeps_words) {
  ids_of_bytes_.fill(-1);
  if (parts_ == Parts::characters) {
    for (std::size_t byte = 0; byte < ids_of_bytes_.size(); ++byte)
      ids_of_bytes_[byte] = vocabulary_.find(name_of_byte(static_cast<unsigned char>(byte))).value_or(-1);
    return;
  }
  for (const auto& [token, id] : vocabulary_.tokens()) {
    const auto bytes = bytes_of_token(token);
    if (!bytes) continue;
    if (bytes->size() == 1) ids_of_bytes_[static_cast<unsigned char>(bytes->front())] = id;
    if (keeps_words) ids_of_words_.emplace(*bytes, id);
  }
}

void BpeModel::read_merges(const JsonFields& merges) {
  const std::size_t count = merges.size();
  merges_.emplace(count);
  for (std::size_t rank = 0; rank < count; ++rank) {
    const JsonFields merge = merges.element(rank);
    const auto [left, right] = parts_of(merge);
    const auto id_of = [&](const std::string& token) {
      const auto found = vocabulary_.find(token);
      if (!found) merge.fail("\"" + token + "\" is not in /model/vocab");
      return *found;
    };
    const TokenId first = id_of(left), second = id_of(right);
    if (!right.starts_with(prefix_)) merge.fail("\"" + right + "\" does not begin with \"" + prefix_ + "\"");
    merges_->add(first, second, {static_cast<std::uint32_t>(rank), id_of(left + right.substr(prefix_.size()))});
  }
}

std::unique_ptr<WordEncoder> BpeModel::make_encoder() const { return std::make_unique<BpeWordEncoder>(*this); }

}  // namespace llmtrain
