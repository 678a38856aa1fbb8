// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/models/word_cache.h"

#include <algorithm>
#include <cstring>

namespace llmtrain {
namespace {

constexpr int slot_bits = 16;  // 4 MiB

}  // namespace

WordCache::WordCache() : slots_(std::size_t{1} << slot_bits) {}

std::size_t WordCache::slot_of(std::string_view word) {
  constexpr std::uint64_t multiplier = 0x9E3779B97F4A7C15U;  // the golden ratio's bits
  std::uint64_t hash = word.size();
  while (!word.empty()) {
    std::uint64_t part = 0;
    const std::size_t size = std::min(word.size(), sizeof part);
    std::memcpy(&part, word.data(), size);
    word.remove_prefix(size);
    hash = (hash ^ part) * multiplier;
    hash ^= hash >> 32;
  }
  return static_cast<std::size_t>(hash * multiplier >> (64 - slot_bits));
}

bool WordCache::append(std::string_view word, std::vector<TokenId>& ids) const {
  if (word.size() > longest_word) return false;
  const Slot& slot = slots_[slot_of(word)];
  if (slot.bytes != word.size() || std::memcmp(slot.word.data(), word.data(), word.size()) != 0) return false;
  ids.insert(ids.end(), slot.ids.begin(), slot.ids.begin() + slot.count);
  return true;
}

void WordCache::store(std::string_view word, const std::vector<TokenId>& ids) {
  if (word.empty() || word.size() > longest_word || ids.size() > most_ids) return;
  Slot& slot = slots_[slot_of(word)];
  slot.bytes = static_cast<std::uint8_t>(word.size());
  slot.count = static_cast<std::uint8_t>(ids.size());
  std::ranges::copy(word, slot.word.begin());
  std::ranges::copy(ids, slot.ids.begin());
}

}  // namespace llmtrain
