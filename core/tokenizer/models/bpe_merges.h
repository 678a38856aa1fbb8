// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "core/tokenizer/pieces/token_id.h"

namespace llmtrain {

// The merges of byte-pair encoding (Sennrich et al. 2016, arXiv:1508.07909, section 3.2): which two neighbouring tokens
// become one, and in which order.
class BpeMerges {
 public:
  struct Merge {
    std::uint32_t rank = none;  // the smallest is first
    TokenId id = 0;             // what the two become
  };
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  // Room for `count` merges.
  explicit BpeMerges(std::size_t count);

  // The last of two for the same pair counts.
  void add(TokenId left, TokenId right, Merge merge);

  // Working memory of apply(), one object per thread.
  struct Workspace {
    struct Symbol {
      TokenId id;
      std::int32_t before, after;  // neighbours; -1 for none
    };
    struct Candidate {
      std::uint32_t rank;
      std::int32_t left;
      TokenId id;
    };
    std::vector<Merge> merges;  // by token, with the one after it
    std::vector<Symbol> symbols;
    std::vector<Candidate> queue;
  };

  // Merges the tokens of one word until no pair is left: always the pair of the smallest rank, among equals the first.
  void apply(std::vector<TokenId>& word, Workspace& workspace) const;

 private:
  struct Slot {
    std::uint64_t pair;
    Merge merge;
  };

  Merge find(TokenId left, TokenId right) const;
  std::size_t first_slot(std::uint64_t pair) const;
  void apply_to_short(std::vector<TokenId>& word, Workspace& workspace) const;
  void apply_to_long(std::vector<TokenId>& word, Workspace& workspace) const;

  std::vector<Slot> slots_;  // open addressing; a power of two of them
  int shift_;
};

}  // namespace llmtrain
