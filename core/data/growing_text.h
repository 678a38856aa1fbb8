// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmtrain {

// Bytes at the end of the text that begin a UTF-8 character whose other bytes may still come: 0 to 3.
std::size_t unfinished_bytes(std::string_view text);

// What a text ends before: the first of these texts, none of which is empty, or tokens, such as a tokenizer's end of
// text.
struct TextStops {
  std::vector<std::string> texts;
  std::vector<std::int64_t> tokens;
};

// A text whose tokens come one by one: what of it can be shown already, and where it ends.
class GrowingText {
 public:
  // The bytes that tokens stand for.
  using Decode = std::function<std::string(std::span<const std::int64_t>)>;

  GrowingText(Decode decode, TextStops stops) : decode_(std::move(decode)), stops_(std::move(stops)) {}

  enum class State { grows, stopped_by_text, stopped_by_token, ended };

  // Whether the text goes on after this token.
  bool add(std::int64_t token);
  // No more tokens come.
  void end() {
    if (state_ == State::grows) state_ = State::ended;
  }

  // What can be shown and was not returned before: whole characters, without what may become a stop. After the end all
  // that is left.
  std::string take();

  const std::string& text() const { return text_; }
  const std::vector<std::int64_t>& tokens() const { return tokens_; }  // also those of the stop
  State state() const { return state_; }

 private:
  // Bytes at the end that the next token may complete to a stop.
  std::size_t possible_stop() const;

  Decode decode_;
  TextStops stops_;
  std::vector<std::int64_t> tokens_;
  std::string text_;
  std::size_t taken_ = 0;
  State state_ = State::grows;
};

}  // namespace llmtrain
