// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/models/unigram_model.h"

#include <algorithm>
#include <limits>

#include "core/base/error.h"
#include "core/tokenizer/pieces/characters.h"

namespace llmtrain {

class UnigramEncoder final : public WordEncoder {
 public:
  explicit UnigramEncoder(const UnigramModel& model) : model_(model) {}

  void encode(std::string_view word, std::vector<TokenId>& ids) override {
    ids.clear();
    // A byte that is no text.
    if (static_cast<unsigned char>(word.front()) >= 0x80 && word.size() == 1) {
      const TokenId id = (*model_.bytes_)[static_cast<unsigned char>(word.front())];
      ids.push_back(id >= 0 ? id : unknown());
      return;
    }
    find_best_paths(word);
    std::size_t unknown_end = 0;  // of the unknown characters in a row that end there; 0 for none
    for (std::size_t end = word.size(); end > 0;) {
      const Path& path = paths_[end];
      if (path.id == model_.unknown_) {
        if (unknown_end == 0) unknown_end = end;
      } else {
        add_unknown(word, end, unknown_end, ids);
        ids.push_back(path.id);
      }
      end = path.begin;
    }
    add_unknown(word, 0, unknown_end, ids);
    std::ranges::reverse(ids);
  }

 private:
  // The best way to a place in the word.
  struct Path {
    double score = 0;
    std::size_t begin = none;  // of its last token
    TokenId id = 0;
  };
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  void find_best_paths(std::string_view word) {
    paths_.assign(word.size() + 1, Path());
    for (std::size_t begin = 0; begin < word.size();) {
      const std::string_view rest = word.substr(begin);
      const std::size_t character = first_character(rest).bytes;
      const double score = paths_[begin].score;
      bool has_character = false;
      const auto reach = [&](std::size_t bytes, TokenId id, double its) {
        Path& path = paths_[begin + bytes];
        if (path.begin == none || score + its > path.score) path = {score + its, begin, id};
      };
      model_.trie_.find_prefixes(rest, [&](std::size_t bytes, TokenId id) {
        reach(bytes, id, model_.scores_[static_cast<std::size_t>(id)]);
        has_character = has_character || bytes == character;
      });
      if (!has_character) reach(character, unknown(), model_.unknown_score_);
      begin += character;
    }
  }

  TokenId unknown() const {
    if (model_.unknown_) return *model_.unknown_;
    throw Error(ExitCode::bad_data, model_.file_ + ": the text has a character without a token, and /model/unk_id is " +
                                        "null; use a tokenizer with an unknown token");
  }

  // Ids are added from a word's end to its beginning.
  void add_unknown(std::string_view word, std::size_t begin, std::size_t& end, std::vector<TokenId>& ids) const {
    if (end == 0) return;
    const std::string_view text = word.substr(begin, end - begin);
    end = 0;
    const auto id_of = [&](char byte) { return (*model_.bytes_)[static_cast<unsigned char>(byte)]; };
    if (const auto whole = model_.vocabulary_.find(text)) {
      ids.push_back(*whole);
    } else if (model_.bytes_ && std::ranges::all_of(text, [&](char byte) { return id_of(byte) >= 0; })) {
      for (auto byte = text.rbegin(); byte != text.rend(); ++byte) ids.push_back(id_of(*byte));
    } else {
      ids.push_back(unknown());
    }
  }

  const UnigramModel& model_;
  std::vector<Path> paths_;  // by the place that they end at
};

UnigramModel::UnigramModel(const JsonFields& section, const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), file_(section.file()) {
  constexpr double penalty = 10;
  const JsonFields entries = section.section("vocab");
  double worst = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    scores_.push_back(entries.value()[i][1].get<double>());
    worst = std::min(worst, scores_.back());
  }
  unknown_score_ = worst - penalty;
  TokenTrie::Tokens tokens(vocabulary.tokens().begin(), vocabulary.tokens().end());
  trie_ = TokenTrie(std::move(tokens));
  if (section.has("unk_id")) {
    unknown_ = static_cast<TokenId>(section.whole_number("unk_id"));
    if (static_cast<std::size_t>(*unknown_) >= scores_.size())
      section.section("unk_id").fail("is not below " + std::to_string(scores_.size()) + ", the tokens of /model/vocab");
  }
  if (!section.flag("byte_fallback", false)) return;
  std::array<TokenId, 256> bytes{};
  for (std::size_t byte = 0; byte < bytes.size(); ++byte)
    bytes[byte] = vocabulary.find(name_of_byte(static_cast<unsigned char>(byte))).value_or(-1);
  bytes_ = bytes;
}

std::unique_ptr<WordEncoder> UnigramModel::make_encoder() const { return std::make_unique<UnigramEncoder>(*this); }

}  // namespace llmtrain
