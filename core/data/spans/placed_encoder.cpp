// SPDX-License-Identifier: Apache-2.0
#include "core/data/spans/placed_encoder.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/base/printable.h"
#include "core/tokenizer/pieces/characters.h"

namespace llmtrain {
namespace {

constexpr std::size_t unknown = static_cast<std::size_t>(-1);

// The first character, or a byte that is none.
Character next_character(std::string_view text) {
  return well_formed_length(text.substr(0, 4)) > 0 ? first_character(text) : Character{0xFFFD, 1};
}

// Bytes of white space at the beginning.
std::size_t white_space_of(std::string_view text) {
  std::size_t size = 0;
  while (size < text.size()) {
    const Character character = next_character(text.substr(size));
    if (!is_white_space(character.code)) break;
    size += character.bytes;
  }
  return size;
}

// White space, and what follows it up to more of it.
std::size_t word_length(std::string_view text) {
  std::size_t size = white_space_of(text);
  while (size < text.size()) {
    const Character character = next_character(text.substr(size));
    if (is_white_space(character.code)) break;
    size += character.bytes;
  }
  return size;
}

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

// Where the character begins of which this byte is, and where the one ends of which the byte before is.
std::size_t character_begin(std::string_view text, std::size_t byte) {
  while (byte > 0 && byte < text.size() && is_continuation(text[byte])) --byte;
  return byte;
}
std::size_t character_end(std::string_view text, std::size_t byte) {
  while (byte < text.size() && is_continuation(text[byte])) ++byte;
  return byte;
}

// Where a part of the text of this size or little more ends, between two characters.
std::size_t part_length(std::string_view text, std::size_t least) {
  std::size_t size = 0;
  while (size < std::min(least, text.size())) size += next_character(text.substr(size)).bytes;
  return size;
}

bool starts_with(const std::vector<TokenId>& ids, std::size_t first, const std::vector<TokenId>& beginning) {
  return first + beginning.size() <= ids.size() &&
         std::equal(beginning.begin(), beginning.end(), ids.begin() + static_cast<std::ptrdiff_t>(first));
}

}  // namespace

std::vector<TokenId> PlacedEncoder::tokens_of(std::string_view text) {
  std::vector<TokenId> ids;
  encoder_->encode(text, ids);
  return ids;
}

void PlacedEncoder::find_ends(std::string_view word, std::size_t begin, const std::vector<TokenId>& ids,
                              std::size_t first, std::vector<std::size_t>& ends) {
  // Long words, as whole sentences of Chinese are, are cut in two where that changes no token: trying out takes time by
  // the square of their length.
  constexpr std::size_t long_word = 96;
  if (word.size() > long_word) {
    const std::size_t size = part_length(word, word.size() / 2);
    const std::vector<TokenId> left = tokens_of(word.substr(0, size)), right = tokens_of(word.substr(size));
    if (starts_with(ids, first, left) && first + left.size() + right.size() <= ids.size() &&
        starts_with(ids, first + left.size(), right)) {
      find_ends(word.substr(0, size), begin, ids, first, ends);
      ends[first + left.size()] = begin + size;
      return find_ends(word.substr(size), begin + size, ids, first + left.size(), ends);
    }
  }
  for (std::size_t size = 0; size < word.size(); size += next_character(word.substr(size)).bytes) {
    const std::vector<TokenId> beginning = tokens_of(word.substr(0, size));
    // The longest beginning has what adds nothing, such as an accent that is left out.
    if (starts_with(ids, first, beginning)) ends[first + beginning.size()] = begin + size;
  }
}

// Between two places that are known tokens share the bytes by how long they are written, if those are all of them; else
// each has all.
void PlacedEncoder::share(std::string_view word, std::span<const TokenId> ids, std::size_t begin, std::size_t end,
                          std::vector<TextPlace>& places) const {
  std::vector<std::size_t> lengths;
  for (const TokenId id : ids) {
    const std::string written = ids.size() > 1 ? tokenizer_.decode_continuation(std::array{std::int64_t{id}}) : "";
    lengths.push_back(written.size() - white_space_of(written));
  }
  const std::size_t first = begin + std::min(white_space_of(word.substr(begin)), end - begin);
  const bool are_all = std::reduce(lengths.begin(), lengths.end()) == end - first;
  std::size_t reached = first;
  for (const std::size_t length : lengths) {
    TextPlace place{first, end};
    if (are_all) place = {character_begin(word, reached), character_end(word, reached + length)};
    reached += length;
    places.push_back(place);
  }
}

TextPlace PlacedEncoder::trimmed(std::string_view word, TextPlace place) {
  const auto is_nothing = [&](std::size_t begin, std::size_t end) {
    return tokens_of(word.substr(begin, end - begin)).empty();
  };
  for (std::size_t next = character_end(word, place.begin + 1); next < place.end && is_nothing(place.begin, next);
       next = character_end(word, place.begin + 1))
    place.begin = next;
  while (place.end > place.begin + 1) {
    const std::size_t last = character_begin(word, place.end - 1);
    if (last <= place.begin || !is_nothing(last, place.end)) break;
    place.end = last;
  }
  return place;
}

const PlacedEncoder::Placed& PlacedEncoder::placed(std::string_view word) {
  constexpr std::size_t most_words = 1 << 17;
  if (words_.size() >= most_words) words_.clear();
  const auto [entry, is_new] = words_.try_emplace(std::string(word));
  Placed& made = entry->second;
  if (!is_new) return made;
  made.ids = tokens_of(word);
  const std::size_t count = made.ids.size();
  // ends[i] is where token number i begins.
  std::vector<std::size_t> ends(count + 1, unknown);
  if (count > 1) find_ends(word, 0, made.ids, 0, ends);
  ends.front() = 0;
  ends.back() = word.size();
  for (std::size_t first = 0, last = 1; first < count; first = last++) {
    while (ends[last] == unknown) ++last;
    share(word, std::span(made.ids).subspan(first, last - first), ends[first], ends[last], made.places);
  }
  for (TextPlace& place : made.places) place = trimmed(word, place);
  return made;
}

void PlacedEncoder::encode(std::string_view text, std::vector<TokenId>& ids, std::vector<TextPlace>& places) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t size = word_length(text.substr(begin));
    const Placed& word = placed(text.substr(begin, size));
    ids.insert(ids.end(), word.ids.begin(), word.ids.end());
    for (const TextPlace& place : word.places) places.push_back({begin + place.begin, begin + place.end});
    begin += size;
  }
}

}  // namespace llmtrain
