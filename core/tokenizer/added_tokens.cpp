// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/added_tokens.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace llmtrain {
namespace {

// Unicode's White_Space, in UTF-8.
constexpr std::string_view spaces[] = {
    "\t",           "\n",           "\v",           "\f",           "\r",           " ",
    "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81", "\xE2\x80\x82",
    "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86", "\xE2\x80\x87", "\xE2\x80\x88",
    "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8", "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F",
    "\xE3\x80\x80"};

// Bytes of the one space for which `is_there` holds; 0 if there is none.
template <class Predicate>
std::size_t size_of_space(Predicate is_there) {
  for (const std::string_view space : spaces)
    if (is_there(space)) return space.size();
  return 0;
}

// Bytes of the white space that valid UTF-8 begins or ends with.
std::size_t leading_space(std::string_view text) {
  std::size_t bytes = 0;
  while (const auto size = size_of_space([&](std::string_view space) { return text.substr(bytes).starts_with(space); }))
    bytes += size;
  return bytes;
}

std::size_t trailing_space(std::string_view text) {
  const std::size_t all = text.size();
  while (const auto size = size_of_space([&](std::string_view space) { return text.ends_with(space); }))
    text.remove_suffix(size);
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
