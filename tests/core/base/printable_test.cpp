// SPDX-License-Identifier: Apache-2.0
#include "core/base/printable.h"

#include <catch2/catch.hpp>
#include <string>

namespace llmtrain {

TEST_CASE("printable text is unchanged", "[printable]") {
  for (const std::string text : {"", "int main() {\n\treturn 0;\n}", "Grüße, 日本語 🙂", "\u00A0\uFFFD"})
    CHECK(printable(text) == text);
}

TEST_CASE("each byte that is not UTF-8 becomes a replacement character", "[printable]") {
  CHECK(printable("a\xFF"
                  "b") == "a\uFFFDb");
  CHECK(printable("\xC3") == "\uFFFD");                      // cut short
  CHECK(printable("\xC3(") == "\uFFFD(");                    // no continuation
  CHECK(printable("\xC0\xAF") == "\uFFFD\uFFFD");            // overlong
  CHECK(printable("\xED\xA0\x80") == "\uFFFD\uFFFD\uFFFD");  // surrogate
  CHECK(printable("\xF5\x80\x80\x80").size() == 12);         // beyond U+10FFFF
  CHECK(printable("\xE6\x97") == "\uFFFD\uFFFD");
}

TEST_CASE("control characters do not reach a terminal", "[printable]") {
  CHECK(printable("\x1B[31mred\x1B[0m") == "\uFFFD[31mred\uFFFD[0m");
  CHECK(printable(std::string(1, '\0')) == "\uFFFD");
  CHECK(printable("\r\x7F") == "\uFFFD\uFFFD");
  CHECK(printable("\xC2\x9B") == "\uFFFD\uFFFD");  // the one-character form of ESC [
}

}  // namespace llmtrain
