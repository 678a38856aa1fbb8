// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/added_tokens.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/tokenizer/pieces/characters.h"

namespace llmtrain {
namespace {

// Whether neither side of a token within `text` continues a word.
bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  return (begin == 0 || !is_word_character(last_character(text.substr(0, begin)).code)) &&
         (end == text.size() || !is_word_character(first_character(text.substr(end)).code));
}

// Bytes of the white space that valid UTF-8 begins or ends with.
std::size_t leading_space(std::string_view text) {
  const std::size_t all = text.size();
  while (!text.empty() && is_white_space(first_character(text).code)) text.remove_prefix(first_character(text).bytes);
  return all - text.size();
}

std::size_t trailing_space(std::string_view text) {
  const std::size_t all = text.size();
  while (!text.empty() && is_white_space(last_character(text).code)) text.remove_suffix(last_character(text).bytes);
  return all - text.size();
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) {
  for (AddedToken& token : tokens) {
    if (token.text.empty()) continue;
    const auto first = static_cast<unsigned char>(token.text.front());
    Group& group = groups_[first];
    if (group.tokens.empty()) {
      first_bytes_.push_back(first);
      group.prefix = token.text;
    }
    const auto end = std::ranges::mismatch(group.prefix, token.text).in1;
    group.prefix.erase(end, group.prefix.end());
    group.tokens.push_back(std::move(token));
  }
  for (const unsigned char first : first_bytes_)
    std::ranges::stable_sort(groups_[first].tokens, std::ranges::greater(),
                             [](const AddedToken& token) { return token.text.size(); });
}

const AddedToken* AddedTokenFinder::token_at(std::string_view text) const {
  const Group& group = groups_[static_cast<unsigned char>(text.front())];
  if (group.tokens.empty() || !text.starts_with(group.prefix)) return nullptr;
  const auto found =
      std::ranges::find_if(group.tokens, [&](const AddedToken& token) { return text.starts_with(token.text); });
  return found == group.tokens.end() ? nullptr : &*found;
}

void AddedTokenFinder::cut(std::string_view all, const std::function<void(std::string_view)>& text,
                           const std::function<void(TokenId)>& token) const {
  std::size_t done = 0;
  const auto text_until = [&](std::size_t end) {
    if (end > done) text(all.substr(done, end - done));
  };
  for (std::size_t place = 0; place < all.size() && !first_bytes_.empty();) {
    if (first_bytes_.size() == 1) {
      const void* next = std::memchr(all.data() + place, first_bytes_.front(), all.size() - place);
      if (next == nullptr) break;
      place = static_cast<std::size_t>(static_cast<const char*>(next) - all.data());
    }
    const AddedToken* found = token_at(all.substr(place));
    if (found == nullptr) {
      ++place;
      continue;
    }
    if (found->is_single_word && !stands_alone(all, place, place + found->text.size())) {
      // What is in it is not looked for.
      place += found->text.size();
      continue;
    }
    const std::string_view before = all.substr(done, std::max(place, done) - done);
    text_until(found->takes_space_before ? done + before.size() - trailing_space(before) : place);
    token(found->id);
    place += found->text.size();
    done = std::max(done, place);
    if (found->takes_space_after) done += leading_space(all.substr(done));
  }
  text_until(all.size());
}

}  // namespace llmtrain
