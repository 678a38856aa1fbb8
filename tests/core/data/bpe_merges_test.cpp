// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/models/bpe_merges.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

namespace llmtrain::test {
namespace {

using Word = std::vector<TokenId>;
using Rules = std::map<std::pair<TokenId, TokenId>, BpeMerges::Merge>;

// The definition, step by step: the pair of the smallest rank, the first of equal ones.
Word merged_by_definition(Word word, const Rules& rules) {
  for (;;) {
    std::size_t best = word.size();
    std::uint32_t rank = BpeMerges::none;
    for (std::size_t i = 0; i + 1 < word.size(); ++i) {
      const auto rule = rules.find({word[i], word[i + 1]});
      if (rule == rules.end() || rule->second.rank >= rank) continue;
      best = i;
      rank = rule->second.rank;
    }
    if (best == word.size()) return word;
    word[best] = rules.at({word[best], word[best + 1]}).id;
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

}  // namespace

TEST_CASE("Merges follow the definition in short and long words") {
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    Rules rules;
    BpeMerges merges(60);
    // Every merge makes a token of its own, from letters 0 to 3 and tokens of earlier merges.
    for (std::uint32_t rank = 0; rank < 60; ++rank) {
      const std::pair pair(static_cast<TokenId>(random() % (4 + rank)), static_cast<TokenId>(random() % (4 + rank)));
      const BpeMerges::Merge merge{rank, static_cast<TokenId>(4 + rank)};
      if (!rules.emplace(pair, merge).second) continue;
      merges.add(pair.first, pair.second, merge);
    }
    BpeMerges::Workspace workspace;
    for (const std::size_t length : {0, 1, 2, 7, 40, 200}) {
      Word word(length);
      for (TokenId& id : word) id = static_cast<TokenId>(random() % 4);
      const Word expected = merged_by_definition(word, rules);
      merges.apply(word, workspace);
      REQUIRE(word == expected);
    }
  }
}

}  // namespace llmtrain::test
