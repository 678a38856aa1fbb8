// SPDX-License-Identifier: Apache-2.0
#include "core/page/text_table.h"

#include <catch2/catch.hpp>
#include <sstream>

namespace llmtrain {
namespace {

TextTable sample() {
  TextTable table({{"recipe", Align::left}, {"model", Align::left}, {"parameters"}, {""}, {"devices"}});
  table.add({{"qwen3-30b"}, {"48 layers × 2048, 128 experts"}, {"30.5B"}, {""}, {"128"}});
  table.add({{"quickstart"}, {"4 layers × 256"}, {"3.5M"}});
  return table;
}

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) most = std::max(most, columns(line));
  return most;
}

TEST_CASE("columns are as wide as their widest cells, and one without text takes no space") {
  CHECK(sample().text({}) ==
        "recipe      model                          parameters  devices\n"
        "qwen3-30b   48 layers × 2048, 128 experts       30.5B      128\n"
        "quickstart  4 layers × 256                       3.5M\n");
}

TEST_CASE("columns that the page has no room for go on in the next line, in all rows alike") {
  TextTable table({{"step"}, {"memory"}, {"schedule", Align::left}, {"micro"}, {"verdict", Align::left}});
  table.add({{"1.79s"}, {"60.3 GiB"}, {"breadth_first × 32"}, {"1"}, {"tight"}});
  table.add({{"2.05s"}, {"9.22 GiB"}, {"1f1b × 1"}, {"16"}});
  CHECK(table.text({TextColour::off, 35}) ==
        " step    memory  schedule\n"
        "    micro  verdict\n"
        "1.79s  60.3 GiB  breadth_first × 32\n"
        "        1  tight\n"
        "2.05s  9.22 GiB  1f1b × 1\n"
        "       16\n");
}

TEST_CASE("a row that has nothing for the next line takes one line") {
  TextTable table({{"memory"}, {"bubble"}, {"", Align::left}});
  table.add({{"62.9 GiB"}, {"8.8 %"}, {""}});
  table.add({{"102 GiB"}, {"15.4 %"}, {"does not fit"}});
  CHECK(table.text({TextColour::off, 24}) ==
        "  memory  bubble\n"
        "62.9 GiB   8.8 %\n"
        " 102 GiB  15.4 %\n"
        "    does not fit\n");
}

TEST_CASE("no line of a table is wider than the page") {
  TextTable table = sample();
  table.add({{std::string(200, 'x')}, {"y"}});
  table.add({{"a"}, {"b"}, {"c"}}, std::string(200, 'z') + " and more");
  for (std::size_t width = 60; width < 240; width += 7) {
    INFO(width);
    CHECK(widest(table.text({TextColour::off, width})) <= width);
  }
}

TEST_CASE("a note stands behind its cells, or below them where little room is left") {
  TextTable table({{"key"}, {"value"}});
  table.add({{"1"}, {"2"}});
  table.add({{"1"}}, "refused: a word, another one and a third");
  CHECK(table.text({}) == "key  value\n  1      2\n  1  refused: a word, another one and a third\n");
  CHECK(table.text({TextColour::off, 30}) == "key  value\n  1      2\n  1  refused: a word, another…\n");
  CHECK(table.text({TextColour::off, 26}) == "key  value\n  1      2\n  1\n    refused: a word, anot…\n");
}

TEST_CASE("colours take no columns") {
  TextTable table({{"verdict", Align::left}, {"micro"}});
  table.add({{"tight", Ink::notice}, {"1"}});
  CHECK(table.text({TextColour::on}) == "\x1b[1mverdict\x1b[0m  \x1b[1mmicro\x1b[0m\n\x1b[33mtight\x1b[0m        1\n");
}

}  // namespace
}  // namespace llmtrain
