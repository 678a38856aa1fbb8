// SPDX-License-Identifier: Apache-2.0
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <array>
#include <catch2/catch.hpp>
#include <string>

#include "core/page/text_layout.h"
#include "tests/support/hostile_text.h"

namespace llmtrain {
namespace {

constexpr std::array inks{Ink::plain, Ink::strong, Ink::good, Ink::notice, Ink::bad, Ink::memory};

TEST_CASE("a result keeps its own colours and no other escapes") {
  const Paint paint{TextColour::on};
  for (const Ink ink : inks) CHECK(painted_message(paint(ink, "día\n")) == paint(ink, "día\n"));
  CHECK(painted_message(paint(Ink::bad, "\x1b[2Jx\x1b[8m")) == paint(Ink::bad, "\uFFFD[2Jx\uFFFD[8m"));
  CHECK(painted_message("\x1b") == "\uFFFD");
  CHECK(painted_message("\x1b[") == "\uFFFD[");
  CHECK(painted_message("\x1b[1;32m") == "\uFFFD[1;32m");
  CHECK(painted_message("\x1b\x1b[1m\u202e") == "\uFFFD\x1b[1m\uFFFD\uFFFD\uFFFD");
}

TEST_CASE("no text steers a terminal as a result", "[property]") {
  rc::prop("beside colours", [](std::uint64_t seed) {
    const Paint paint{TextColour::on};
    std::string shown = painted_message(paint(inks[seed % inks.size()], test::hostile_text(seed)));
    for (const Ink ink : inks) {
      const std::string painted = paint(ink, "\n"), begin = painted.substr(0, painted.find('\n'));
      for (std::size_t at = 0; !begin.empty() && (at = shown.find(begin)) != std::string::npos;)
        shown.erase(at, begin.size());
    }
    for (std::size_t at = 0; (at = shown.find("\x1b[0m")) != std::string::npos;) shown.erase(at, 4);
    RC_ASSERT_FALSE(test::steers_terminal(shown));
  });
}

}  // namespace
}  // namespace llmtrain
