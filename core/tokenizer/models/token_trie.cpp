// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/models/token_trie.h"

namespace llmtrain {
namespace {

// The tokens below a node: they have its first `depth` bytes in common.
struct Range {
  std::size_t begin;
  std::size_t end;
  std::size_t depth;
};

}  // namespace

TokenTrie::TokenTrie(Tokens tokens) : nodes_(1), bytes_(1) {
  std::ranges::sort(tokens);
  std::erase_if(tokens, [](const auto& token) { return token.first.empty(); });
  // Level by level, so that children follow each other.
  std::vector<Range> ranges = {{0, tokens.size(), 0}};
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    Range range = ranges[node];
    while (range.begin < range.end && tokens[range.begin].first.size() == range.depth)
      nodes_[node].id = tokens[range.begin++].second;
    nodes_[node].children = static_cast<std::uint32_t>(nodes_.size());
    for (std::size_t begin = range.begin; begin < range.end;) {
      const char byte = tokens[begin].first[range.depth];
      std::size_t end = begin + 1;
      while (end < range.end && tokens[end].first[range.depth] == byte) ++end;
      ranges.push_back({begin, end, range.depth + 1});
      nodes_.emplace_back();
      bytes_.push_back(static_cast<unsigned char>(byte));
      ++nodes_[node].count;
      begin = end;
    }
  }
  for (std::uint32_t i = 0; i < nodes_[0].count; ++i) first_[bytes_[nodes_[0].children + i]] = nodes_[0].children + i;
}

}  // namespace llmtrain
