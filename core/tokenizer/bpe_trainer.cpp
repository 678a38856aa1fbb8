// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/bpe_trainer.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/tokenizer/pieces/byte_level.h"

namespace llmtrain {
namespace {

using Json = nlohmann::ordered_json;
using Pair = std::pair<TokenId, TokenId>;

const Json& byte_level_section() {
  static const Json section = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return section;
}

PreTokenizer byte_level_pre_tokenizer() {
  const nlohmann::json section = byte_level_section();
  PreTokenizer pre_tokenizer(JsonFields("tokenizer.json", section, "/pre_tokenizer"));
  pre_tokenizer.keep_bytes();
  return pre_tokenizer;
}

struct PairHash {
  std::size_t operator()(const Pair& pair) const {
    const auto bits = static_cast<std::uint64_t>(static_cast<std::uint32_t>(pair.first)) << 32 |
                      static_cast<std::uint32_t>(pair.second);
    return static_cast<std::size_t>(bits * 0x9E3779B97F4A7C15ULL);
  }
};

// A word as its tokens so far.
struct Word {
  std::vector<TokenId> tokens;
  std::int64_t count = 0;
};

struct PairState {
  std::int64_t count = 0;
  std::unordered_set<std::size_t> words;  // that may have it
};

// A pair and its count when it was put in the queue.
struct Candidate {
  std::int64_t count = 0;
  Pair pair;

  // Whether it comes after `other`.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class BpeTraining {
 public:
  BpeTraining(const WordCounts& counts, const BpeTrainingSettings& settings) : settings_(settings) {
    add_first_tokens();
    for (const auto& [text, count] : counts.words()) {
      Word word{{}, count};
      for (const char c : text) word.tokens.push_back(id_of_byte_[static_cast<unsigned char>(c)]);
      words_.push_back(std::move(word));
    }
  }

  BpeVocabulary run() {
    for (std::size_t i = 0; i < words_.size(); ++i) change_pairs(i, 1);
    for (const auto& [pair, state] : pairs_) queue_.push({state.count, pair});
    while (std::ssize(vocabulary_.tokens) < settings_.vocab_size && !queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      // Counts that have changed since are in the queue, too.
      if (best.count != pairs_[best.pair].count) continue;
      if (best.count < std::max<std::int64_t>(1, settings_.minimum_frequency)) break;
      merge(best.pair);
    }
    return std::move(vocabulary_);
  }

 private:
  // Special tokens, and the bytes in the order of the characters that stand for them.
  void add_first_tokens() {
    vocabulary_.tokens = settings_.special_tokens;
    vocabulary_.special_tokens = settings_.special_tokens.size();
    for (const unsigned char byte : bytes_in_order_of_characters()) {
      id_of_byte_[byte] = static_cast<TokenId>(vocabulary_.tokens.size());
      vocabulary_.tokens.emplace_back(1, static_cast<char>(byte));
    }
  }

  // Adds a word's pairs to the counts, or takes them away.
  void change_pairs(std::size_t index, std::int64_t sign) {
    const Word& word = words_[index];
    for (std::size_t i = 0; i + 1 < word.tokens.size(); ++i) {
      PairState& state = pairs_[{word.tokens[i], word.tokens[i + 1]}];
      state.count += sign * word.count;
      if (sign > 0) state.words.insert(index);
      touched_.insert({word.tokens[i], word.tokens[i + 1]});
    }
  }

  void merge(const Pair& pair) {
    const auto id = static_cast<TokenId>(vocabulary_.tokens.size());
    vocabulary_.tokens.push_back(vocabulary_.tokens[static_cast<std::size_t>(pair.first)] +
                                 vocabulary_.tokens[static_cast<std::size_t>(pair.second)]);
    vocabulary_.merges.push_back(pair);
    touched_.clear();
    const auto words = std::move(pairs_[pair].words);
    for (const std::size_t index : words) {
      change_pairs(index, -1);
      replace(words_[index].tokens, pair, id);
      change_pairs(index, 1);
    }
    pairs_[pair] = {};
    for (const Pair& each : touched_)
      if (pairs_[each].count > 0) queue_.push({pairs_[each].count, each});
  }

  // From the left, so that of three equal tokens the first two become one.
  static void replace(std::vector<TokenId>& tokens, const Pair& pair, TokenId id) {
    std::size_t end = 0;
    for (std::size_t i = 0; i < tokens.size(); ++end) {
      const bool matches = i + 1 < tokens.size() && tokens[i] == pair.first && tokens[i + 1] == pair.second;
      tokens[end] = matches ? id : tokens[i];
      i += matches ? 2 : 1;
    }
    tokens.resize(end);
  }

  const BpeTrainingSettings& settings_;
  BpeVocabulary vocabulary_;
  std::array<TokenId, 256> id_of_byte_{};
  std::vector<Word> words_;
  std::unordered_map<Pair, PairState, PairHash> pairs_;
  std::unordered_set<Pair, PairHash> touched_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

WordCounts::WordCounts() : pre_tokenizer_(byte_level_pre_tokenizer()), splitter_(pre_tokenizer_) {}

void WordCounts::add(std::string_view text) {
  if (text.empty()) return;
  if (!is_utf8(text)) throw Error(ExitCode::bad_data, "text that is not UTF-8 cannot train a tokenizer");
  splitter_.split(text, true, [&](std::string_view word) {
    const auto found = words_.find(word);
    if (found != words_.end())
      ++found->second;
    else
      words_.emplace(word, 1);
  });
}

BpeVocabulary train_bpe(const WordCounts& counts, const BpeTrainingSettings& settings) {
  const std::int64_t least = 256 + std::ssize(settings.special_tokens);
  if (settings.vocab_size < least)
    throw Error(ExitCode::bad_recipe, "--vocab-size: is " + std::to_string(settings.vocab_size) +
                                          "; bytes and special tokens need at least " + std::to_string(least));
  return BpeTraining(counts, settings).run();
}

std::string tokenizer_json(const BpeVocabulary& vocabulary) {
  const auto written = [&](std::size_t id) {
    return id < vocabulary.special_tokens ? vocabulary.tokens[id] : token_of_bytes(vocabulary.tokens[id]);
  };
  Json added = Json::array(), merges = Json::array();
  // By name: an object that keeps its order would compare each key with all before it.
  nlohmann::json vocab = nlohmann::json::object();
  for (std::size_t id = 0; id < vocabulary.special_tokens; ++id)
    added.push_back({{"id", id},
                     {"content", vocabulary.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) vocab[written(id)] = id;
  for (const auto& [left, right] : vocabulary.merges)
    merges.push_back({written(static_cast<std::size_t>(left)), written(static_cast<std::size_t>(right))});
  const Json model = {{"type", "BPE"},
                      {"dropout", nullptr},
                      {"unk_token", nullptr},
                      {"continuing_subword_prefix", nullptr},
                      {"end_of_word_suffix", nullptr},
                      {"fuse_unk", false},
                      {"byte_fallback", false},
                      {"ignore_merges", false},
                      {"vocab", std::move(vocab)},
                      {"merges", std::move(merges)}};
  const Json root = {
      {"version", "1.0"},          {"truncation", nullptr},           {"padding", nullptr},
      {"added_tokens", added},     {"normalizer", nullptr},           {"pre_tokenizer", byte_level_section()},
      {"post_processor", nullptr}, {"decoder", byte_level_section()}, {"model", model}};
  return root.dump(1) + "\n";
}

}  // namespace llmtrain
