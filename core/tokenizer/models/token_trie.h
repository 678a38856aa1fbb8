// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tokenizer/pieces/token_id.h"

namespace llmtrain {

// Finds the tokens that a text begins with, byte by byte.
class TokenTrie {
 public:
  using Tokens = std::vector<std::pair<std::string_view, TokenId>>;

  TokenTrie() : TokenTrie(Tokens()) {}
  // A trie of tokens with their ids: one counts among equal tokens, and empty ones are left out.
  explicit TokenTrie(Tokens tokens);

  // Calls `match(bytes, id)` with each token that `text` begins with, from the shortest to the longest.
  template <class Match>
  void find_prefixes(std::string_view text, const Match& match) const {
    if (text.empty()) return;
    std::uint32_t node = first_[static_cast<unsigned char>(text.front())];
    for (std::size_t bytes = 1; node != 0; ++bytes) {
      if (nodes_[node].id >= 0) match(bytes, nodes_[node].id);
      if (bytes == text.size()) return;
      node = child(node, static_cast<unsigned char>(text[bytes]));
    }
  }

 private:
  struct Node {
    std::uint32_t children = 0;  // the first of them, which follow each other by their bytes
    std::uint16_t count = 0;
    TokenId id = -1;  // the token that ends here; -1 for none
  };

  std::uint32_t child(std::uint32_t node, unsigned char byte) const {
    const unsigned char* begin = bytes_.data() + nodes_[node].children;
    const unsigned char* end = begin + nodes_[node].count;
    const unsigned char* found = end - begin > 8 ? std::lower_bound(begin, end, byte) : std::find(begin, end, byte);
    return found == end || *found != byte ? 0 : nodes_[node].children + static_cast<std::uint32_t>(found - begin);
  }

  std::array<std::uint32_t, 256> first_{};  // the root's children
  std::vector<Node> nodes_;                 // the root is first
  std::vector<unsigned char> bytes_;        // that lead to each node
};

}  // namespace llmtrain
