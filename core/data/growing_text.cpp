// SPDX-License-Identifier: Apache-2.0
#include "core/data/growing_text.h"

#include <algorithm>

namespace llmtrain {

std::size_t unfinished_bytes(std::string_view text) {
  for (std::size_t count = 1; count <= std::min<std::size_t>(3, text.size()); ++count) {
    const auto byte = static_cast<unsigned char>(text[text.size() - count]);
    if (byte >= 0x80 && byte < 0xC0) continue;  // not the first byte of a character
    const std::size_t length = byte >= 0xF0 && byte < 0xF8 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return byte < 0xF8 && length > count ? count : 0;
  }
  return 0;
}

bool GrowingText::add(std::int64_t token) {
  tokens_.push_back(token);
  if (std::find(stops_.tokens.begin(), stops_.tokens.end(), token) != stops_.tokens.end()) {
    state_ = State::stopped_by_token;
    return false;
  }
  // All of them: a tokenizer may write a token differently after others.
  const std::size_t before = text_.size();
  text_ = decode_(tokens_);
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_.texts)
    first = std::min(first, text_.find(stop, before >= stop.size() ? before - stop.size() : 0));
  if (first == std::string::npos) return true;
  text_.resize(first);
  state_ = State::stopped_by_text;
  return false;
}

std::size_t GrowingText::possible_stop() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_.texts) {
    for (std::size_t length = std::min(stop.size() - 1, text_.size()); length > longest; --length)
      if (text_.ends_with(std::string_view(stop).substr(0, length))) longest = length;
  }
  return longest;
}

std::string GrowingText::take() {
  std::size_t certain = text_.size();
  if (state_ == State::grows) {
    certain -= possible_stop();
    certain -= unfinished_bytes(std::string_view(text_).substr(0, certain));
  }
  if (certain <= taken_) return {};
  std::string piece = text_.substr(taken_, certain - taken_);
  taken_ = certain;
  return piece;
}

}  // namespace llmtrain
