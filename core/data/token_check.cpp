// SPDX-License-Identifier: Apache-2.0
#include "core/data/token_formats.h"

#include <algorithm>
#include <limits>

namespace llmtrain {
namespace {

constexpr std::size_t block = 16384;  // fits the first-level cache; searching a bad block again costs little

template <class Integer>
bool is_valid(Integer id, std::int64_t vocab_size) {
  return id >= 0 && static_cast<std::int64_t>(id) < vocab_size;
}

template <class Integer>
std::optional<InvalidToken> find_in(std::span<const Integer> ids, std::int64_t vocab_size) {
  // No value of the type can be invalid: the file need not be read.
  if (std::numeric_limits<Integer>::min() == 0 && std::numeric_limits<Integer>::max() < vocab_size) return {};
  for (std::size_t start = 0; start < ids.size(); start += block) {
    const auto part = ids.subspan(start, std::min(block, ids.size() - start));
    // 0 is valid, so starting from it hides nothing.
    Integer low = 0;
    Integer high = 0;
    for (const Integer id : part) {  // without branches, so that the compiler vectorises it
      low = std::min(low, id);
      high = std::max(high, id);
    }
    if (is_valid(low, vocab_size) && is_valid(high, vocab_size)) continue;
    const auto bad = std::find_if(part.begin(), part.end(), [=](Integer id) { return !is_valid(id, vocab_size); });
    return InvalidToken{static_cast<std::int64_t>(start) + (bad - part.begin()), static_cast<std::int64_t>(*bad)};
  }
  return {};
}

}  // namespace

std::optional<InvalidToken> find_invalid_token(TokenType type, std::span<const std::byte> bytes,
                                               std::int64_t vocab_size) {
  return visit_tokens(type, bytes, [=](auto ids) { return find_in(ids, vocab_size); });
}

}  // namespace llmtrain
