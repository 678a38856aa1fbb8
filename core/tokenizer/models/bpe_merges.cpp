// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/models/bpe_merges.h"

#include <algorithm>
#include <bit>

namespace llmtrain {
namespace {

constexpr std::uint64_t no_pair = std::numeric_limits<std::uint64_t>::max();

// Below, searching all pairs for each merge is faster than keeping them in order.
constexpr std::size_t short_word = 48;

std::uint64_t pair_of(TokenId left, TokenId right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

// At most half full, so that a search ends after a slot or two.
BpeMerges::BpeMerges(std::size_t count)
    : slots_(std::bit_ceil(2 * count + 2), Slot{no_pair, {}}), shift_(64 - std::countr_zero(slots_.size())) {}

std::size_t BpeMerges::first_slot(std::uint64_t pair) const {
  // The golden ratio's bits; the product's highest bits depend on all of the pair's.
  return static_cast<std::size_t>(pair * 0x9E3779B97F4A7C15U >> shift_);
}

void BpeMerges::add(TokenId left, TokenId right, Merge merge) {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t slot = first_slot(pair);
  while (slots_[slot].pair != no_pair && slots_[slot].pair != pair) slot = (slot + 1) & (slots_.size() - 1);
  slots_[slot] = {pair, merge};
}

BpeMerges::Merge BpeMerges::find(TokenId left, TokenId right) const {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t slot = first_slot(pair);
  while (slots_[slot].pair != pair) {
    if (slots_[slot].pair == no_pair) return {};
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return slots_[slot].merge;
}

void BpeMerges::apply(std::vector<TokenId>& word, Workspace& workspace) const {
  if (word.size() <= short_word) {
    apply_to_short(word, workspace);
  } else {
    apply_to_long(word, workspace);
  }
}

void BpeMerges::apply_to_short(std::vector<TokenId>& word, Workspace& workspace) const {
  auto& merges = workspace.merges;
  merges.clear();
  for (std::size_t i = 0; i + 1 < word.size(); ++i) merges.push_back(find(word[i], word[i + 1]));
  while (!merges.empty()) {
    const auto best = std::ranges::min_element(merges, {}, &Merge::rank);
    if (best->rank == none) return;
    const auto left = static_cast<std::size_t>(best - merges.begin());
    word[left] = best->id;
    word.erase(word.begin() + static_cast<std::ptrdiff_t>(left) + 1);
    merges.erase(best);
    if (left < merges.size()) merges[left] = find(word[left], word[left + 1]);
    if (left > 0) merges[left - 1] = find(word[left - 1], word[left]);
  }
}

void BpeMerges::apply_to_long(std::vector<TokenId>& word, Workspace& workspace) const {
  auto& symbols = workspace.symbols;
  auto& queue = workspace.queue;
  const auto later = [](const auto& a, const auto& b) { return a.rank != b.rank ? a.rank > b.rank : a.left > b.left; };
  const auto add = [&](std::int32_t left) {
    if (left < 0 || symbols[left].after < 0) return;
    const Merge merge = find(symbols[left].id, symbols[symbols[left].after].id);
    if (merge.rank == none) return;
    queue.push_back({merge.rank, left, merge.id});
    std::ranges::push_heap(queue, later);
  };
  const auto count = static_cast<std::int32_t>(word.size());
  symbols.clear();
  queue.clear();
  for (std::int32_t i = 0; i < count; ++i) symbols.push_back({word[i], i - 1, i + 1 < count ? i + 1 : -1});
  for (std::int32_t i = 0; i < count; ++i) add(i);
  constexpr TokenId gone = -2;  // no token has it: -1 is a byte without one
  while (!queue.empty()) {
    const auto best = queue.front();
    std::ranges::pop_heap(queue, later);
    queue.pop_back();
    auto& left = symbols[best.left];
    // Candidates stay in the queue when another merge takes one of their tokens; what they made shows it.
    if (left.id == gone || left.after < 0 || find(left.id, symbols[left.after].id).id != best.id) continue;
    auto& right = symbols[left.after];
    left.id = best.id;
    right.id = gone;
    left.after = right.after;
    if (left.after >= 0) symbols[left.after].before = best.left;
    add(left.before);
    add(best.left);
  }
  word.clear();
  for (std::int32_t i = 0; i >= 0; i = symbols[i].after) word.push_back(symbols[i].id);
}

}  // namespace llmtrain
