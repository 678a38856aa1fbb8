// SPDX-License-Identifier: Apache-2.0
#include "core/data/growing_text.h"

#include <catch2/catch.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/printable.h"
#include "core/tokenizer/byte_tokenizer.h"

namespace llmtrain {
namespace {

std::string bytes_of(std::span<const std::int64_t> tokens) { return ByteTokenizer().decode(tokens); }

std::vector<std::int64_t> tokens_of(std::string_view text) { return encode_prompt(ByteTokenizer(), text); }

// What can be shown after each byte, until the text ends.
std::vector<std::string> pieces(std::string_view bytes, const std::vector<std::string>& stops = {}) {
  GrowingText text(bytes_of, {stops, {}});
  std::vector<std::string> result;
  for (const std::int64_t token : tokens_of(bytes)) {
    const bool goes_on = text.add(token);
    result.push_back(text.take());
    if (!goes_on) return result;
  }
  text.end();
  result.push_back(text.take());
  return result;
}

using Pieces = std::vector<std::string>;

}  // namespace

TEST_CASE("A growing text is shown character by character") {
  CHECK(pieces("aé€😀") == Pieces{"a", "", "é", "", "", "€", "", "", "", "😀", ""});
}

TEST_CASE("Bytes that are no character are shown when none can follow, and at the end") {
  CHECK(pieces("\xC3\x41") == Pieces{"", "\xC3\x41", ""});
  CHECK(pieces("\xE2\x82") == Pieces{"", "", "\xE2\x82"});
  CHECK(pieces("\x80\xFF") == Pieces{"\x80", "\xFF", ""});
}

TEST_CASE("Every prefix of valid UTF-8 lacks at most its unfinished bytes") {
  const std::string_view text = "aé€😀z";
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const std::string_view prefix = text.substr(0, length);
    CHECK(is_utf8(prefix.substr(0, length - unfinished_bytes(prefix))));
  }
}

TEST_CASE("A text ends before the first stop, whose beginning is never shown") {
  CHECK(pieces("one\n\ntwo", {"\n\n"}) == Pieces{"o", "n", "e", "", ""});
  CHECK(pieces("a\nb", {"\n\n"}) == Pieces{"a", "", "\nb", ""});
  CHECK(pieces("a\n", {"\n\n"}) == Pieces{"a", "", "\n"});
  // The one that ends first, of several; and a beginning that turns out to be another.
  CHECK(pieces("xaab!", {"ab", "b!"}) == Pieces{"x", "", "a", ""});
}

TEST_CASE("A stopped text keeps the tokens of its stop") {
  GrowingText text(bytes_of, {{"END"}, {}});
  for (const std::int64_t token : tokens_of("abEN")) CHECK(text.add(token));
  CHECK_FALSE(text.add('D'));
  CHECK(text.state() == GrowingText::State::stopped_by_text);
  CHECK(text.text() == "ab");
  CHECK(text.tokens() == tokens_of("abEND"));
}

TEST_CASE("A text ends before a token that stops it, with what was kept back") {
  GrowingText text(bytes_of, {{"bc"}, {300}});
  for (const std::int64_t token : tokens_of("ab")) CHECK(text.add(token));
  CHECK(text.take() == "a");
  CHECK_FALSE(text.add(300));
  CHECK(text.take() == "b");
  text.end();
  CHECK(text.state() == GrowingText::State::stopped_by_token);
  CHECK(text.text() == "ab");
  CHECK(text.tokens() == std::vector<std::int64_t>{'a', 'b', 300});
}

}  // namespace llmtrain
