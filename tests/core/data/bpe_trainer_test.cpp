// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/bpe_trainer.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/tokenizer/huggingface_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

using Words = std::vector<std::string>;

// Lines of one word each: a line's end is a word of its own.
WordCounts counts_of(const std::vector<std::pair<std::string, int>>& words) {
  WordCounts counts;
  for (const auto& [word, times] : words)
    for (int i = 0; i < times; ++i) counts.add(word + "\n");
  return counts;
}

Words merged(const BpeVocabulary& vocabulary) {
  return {vocabulary.tokens.end() - std::ssize(vocabulary.merges), vocabulary.tokens.end()};
}

// The example of Sennrich et al., arXiv 1508.07909, figure 1, with the counts of their code.
const std::vector<std::pair<std::string, int>> example{{"low", 5}, {"lower", 2}, {"newest", 6}, {"widest", 3}};

}  // namespace

TEST_CASE("The most frequent pairs become tokens, of equally frequent ones those of smaller ids") {
  const BpeVocabulary vocabulary = train_bpe(counts_of(example), {.vocab_size = 1000});
  CHECK(merged(vocabulary) ==
        Words{"es", "est", "lo", "low", "ew", "new", "newest", "dest", "idest", "widest", "er", "lower"});
  CHECK(vocabulary.tokens.size() == 257 + 12);
  CHECK(vocabulary.tokens.front() == "<|endoftext|>");
}

TEST_CASE("Merges end with the vocabulary and with rare pairs") {
  CHECK(merged(train_bpe(counts_of(example), {.vocab_size = 259})) == Words{"es", "est"});
  CHECK(merged(train_bpe(counts_of(example), {.vocab_size = 1000, .minimum_frequency = 7})) ==
        Words{"es", "est", "lo", "low"});
  CHECK(train_bpe(counts_of({}), {.vocab_size = 1000}).tokens.size() == 257);
  CHECK_THROWS_AS(train_bpe(counts_of(example), {.vocab_size = 256}), Error);
}

TEST_CASE("Equal neighbours are merged from the left") {
  const BpeVocabulary vocabulary = train_bpe(counts_of({{"aaa", 2}}), {.vocab_size = 1000});
  CHECK(merged(vocabulary) == Words{"aa", "aaa"});
  CHECK(vocabulary.merges.back() == std::pair<TokenId, TokenId>{257, vocabulary.merges.front().first});
}

TEST_CASE("A written vocabulary is a tokenizer that encodes with its merges") {
  const TemporaryDirectory folder;
  const BpeTrainingSettings settings{.vocab_size = 1000, .special_tokens = {"<pad>", "<|endoftext|>"}};
  const BpeVocabulary vocabulary = train_bpe(counts_of(example), settings);
  const HuggingFaceTokenizer tokenizer(folder.write("tokenizer.json", tokenizer_json(vocabulary)));
  std::vector<TokenId> ids;
  tokenizer.make_encoder()->encode("lowest<pad>\xc3\xa9", ids);
  REQUIRE(ids.size() == 5);
  const auto token = [&](std::size_t i) { return vocabulary.tokens[static_cast<std::size_t>(ids[i])]; };
  CHECK(Words{token(0), token(1), token(2), token(3), token(4)} == Words{"low", "est", "<pad>", "\xc3", "\xa9"});
  CHECK(tokenizer.marks().end == std::vector<TokenId>{1});
  CHECK(tokenizer.vocab_size() == std::ssize(vocabulary.tokens));
}

TEST_CASE("Text that is not UTF-8 trains no tokenizer") { CHECK_THROWS_AS(WordCounts().add("a\xff"), Error); }

}  // namespace llmtrain::test
