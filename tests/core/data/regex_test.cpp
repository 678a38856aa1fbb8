// SPDX-License-Identifier: Apache-2.0
// What PCRE2 and Oniguruma, which the `tokenizers` package uses, take differently. The package's ids on text of all
// scripts are compared in tests/oracle/tokenizer_test.py.
#include "core/tokenizer/pieces/regex.h"

#include <catch2/catch.hpp>
#include <stdexcept>

namespace llmtrain::test {
namespace {

// "begin-end" of the first match.
std::string found(std::string_view pattern, std::string_view text, std::size_t from = 0) {
  const Regex regex(pattern);
  const auto match = RegexMatcher(regex).find(text, from);
  return match ? std::to_string(match->begin) + "-" + std::to_string(match->end) : "none";
}

}  // namespace

TEST_CASE("White space is Unicode's: no Mongolian vowel separator") {
  CHECK(found("\\s", "\u180e\u3000") == "3-6");
  CHECK(found("[\\s]", "\u180e\u0085") == "3-5");
  CHECK(found("\\S", " \u180e") == "1-4");
  CHECK(found("[\\S]", "\u2028\u180e") == "3-6");
  CHECK(found("\\s+(?!\\S)", "a   b") == "1-3");
}

TEST_CASE("General categories include what Unicode 15 and 16 added") {
  // U+31350 of Unicode 15, a Chinese character; U+1C89 of Unicode 16, an upper-case letter; U+10D40, a digit.
  CHECK(found("\\p{L}", "1\U00031350") == "1-5");
  CHECK(found("[\\p{L}1]+", "1\U00031350") == "0-5");
  CHECK(found("\\p{Lu}", "a\u1c89") == "1-4");
  CHECK(found("\\p{Ll}", "\u1c89") == "none");
  CHECK(found("\\P{L}+", "\u1c89!?") == "3-5");
  CHECK(found("\\pN", "\U00010d40") == "0-4");
}

TEST_CASE("Dollar and caret match at lines, and empty matches are passed over") {
  CHECK(found("b$", "ab\nab") == "1-2");
  CHECK(found("^b", "a\nb") == "2-3");
  CHECK(found("b*", "aéb") == "3-4");
  CHECK(found("b*", "aé") == "none");
}

TEST_CASE("What the two libraries take differently is refused") {
  for (const char* pattern : {"\\w+", "\\b", "a{,3}", "a{3}+", "[a[b]]", "[a&&b]", "[^\\P{L}]", "\\p{Han}", "(?m)a",
                              "[]a]", "\\p{L", "\\", "(a"}) {
    INFO(pattern);
    CHECK_THROWS_AS(Regex(pattern), std::invalid_argument);
  }
}

}  // namespace llmtrain::test
