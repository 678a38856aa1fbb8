// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/white_space.h"

namespace llmtrain {
namespace {

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

}  // namespace

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

}  // namespace llmtrain
