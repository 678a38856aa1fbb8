// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/tokenizer/pieces/token_id.h"

namespace llmtrain {

// The ids of words that were met before: most words of a text repeat. A word replaces another that falls into its slot.
class WordCache {
 public:
  WordCache();

  // Appends the ids of `word` and returns true if they are here.
  bool append(std::string_view word, std::vector<TokenId>& ids) const;
  // Words that are too long for a slot are left out.
  void store(std::string_view word, const std::vector<TokenId>& ids);

 private:
  static constexpr std::size_t longest_word = 30;
  static constexpr std::size_t most_ids = 8;
  // One line of the processor's cache.
  struct alignas(64) Slot {
    std::uint8_t bytes = 0;
    std::uint8_t count = 0;
    std::array<char, longest_word> word{};
    std::array<TokenId, most_ids> ids{};
  };
  static_assert(sizeof(Slot) == 64);

  static std::size_t slot_of(std::string_view word);

  std::vector<Slot> slots_;
};

}  // namespace llmtrain
