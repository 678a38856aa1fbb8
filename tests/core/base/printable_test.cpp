// SPDX-License-Identifier: Apache-2.0
#include "core/base/printable.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <sstream>
#include <string>

#include "core/base/error.h"
#include "core/base/log.h"
#include "tests/support/hostile_text.h"

namespace llmtrain {
namespace {

// One of each character.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) != 0x80U; }));
}

}  // namespace

// RFC 4648, section 10.
TEST_CASE("bytes are written in base 64 as its definition shows", "[printable]") {
  CHECK(in_base64("").empty());
  CHECK(in_base64("f") == "Zg==");
  CHECK(in_base64("fo") == "Zm8=");
  CHECK(in_base64("foo") == "Zm9v");
  CHECK(in_base64("foob") == "Zm9vYg==");
  CHECK(in_base64("fooba") == "Zm9vYmE=");
  CHECK(in_base64("foobar") == "Zm9vYmFy");
  CHECK(in_base64(std::string("\x00\xff\xfe", 3)) == "AP/+");
}

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

TEST_CASE("marks of writing direction stay in texts and leave messages", "[printable]") {
  for (const std::string mark : {"\u061C", "\u200E", "\u200F", "\u202A", "\u202E", "\u2066", "\u2069"}) {
    CHECK(printable("a" + mark + "b") == "a" + mark + "b");
    CHECK(columns_of(message_text("a" + mark + "b")) == 2 + mark.size());
    CHECK(message_text("a" + mark + "b").find(mark) == std::string::npos);
  }
  // Their neighbours, among them what Persian and joined emoji need.
  for (const std::string text : {"\u061B\u061D\u200D\u200C\u2010\u2029\u202F\u2065\u206A", "שלום عليكم日本"})
    CHECK(message_text(text) == text);
  CHECK(message_text("a\x1B[2J\r\x7F\xC2\x9B\xFFz\n\t") == "a\uFFFD[2J\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDz\n\t");
}

TEST_CASE("JSON with escapes has the same value and steers no terminal", "[printable]") {
  CHECK(escaped_json("{\"\u202E\u00E9\": \"\x7F\u009B\u061C\"}\n") ==
        "{\"\\u202e\u00E9\": \"\\u007f\\u009b\\u061c\"}\n");
}

TEST_CASE("no text steers a terminal", "[printable][property]") {
  rc::prop("as a message", [](std::uint64_t seed) {
    const std::string text = test::hostile_text(seed), message = message_text(text);
    RC_ASSERT_FALSE(test::steers_terminal(message));
    RC_ASSERT(message_text(message) == message);
  });
  rc::prop("as a line of the log", [](std::uint64_t seed) {
    std::ostringstream lines;
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_st>(lines);
    sink->set_pattern("%v");
    Logger logger(std::make_shared<spdlog::logger>("test", sink));
    logger.error(Error(ExitCode::bad_data, test::hostile_text(seed) + ".json: does not exist").what());
    logger.info("the name is {}", test::hostile_text(seed));
    RC_ASSERT_FALSE(test::steers_terminal(lines.str()));
    RC_ASSERT(lines.str().find(".json: does not exist\nthe name is x") != std::string::npos);
  });
}

}  // namespace llmtrain
