// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/csv_records.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/data/records/bad_lines.h"
#include "tests/core/data/data_files.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

using Rows = std::vector<std::pair<std::int64_t, std::string>>;

struct Table {
  Rows rows;
  BadLines bad_lines{OnBadLine::skip};
};

Table read_table(const std::filesystem::path& file) {
  Table table;
  CsvReader reader(file);
  for (Record record; table.bad_lines.next(reader, record);) table.rows.emplace_back(record.line, record.text);
  return table;
}

}  // namespace

// The rules of RFC 4180, section 2, by number.
TEST_CASE("A table's rows are objects of texts, with the lines on which they begin") {
  const TemporaryDirectory folder;
  const Rows expected{
      {2, R"({"a":"1","b":"x,y"})"}, {3, R"({"a":"","b":"two\nlines \"quoted\""})"}, {6, R"({"a":"last","b":""})"}};
  const std::string text = "a,b\r\n1,\"x,y\"\r\n,\"two\nlines \"\"quoted\"\"\"\r\n\r\nlast,";
  CHECK(read_table(folder.write("a.csv", text)).rows == expected);
  CHECK(read_table(folder.write("mark.csv", "\xEF\xBB\xBF" + text + "\n")).rows == expected);
  CHECK(read_table(folder.write("a.tsv", "a\tb\n1,2\t\"x\ty\"\n")).rows == Rows{{2, R"({"a":"1,2","b":"x\ty"})"}});
}

TEST_CASE("Bad rows of a table are said by line, and reading goes on behind them") {
  const TemporaryDirectory folder;
  const auto file = folder.write("a.csv", "a,b\n1\n\"x\"y,2\n\xff,3\n1,2,3\n4,5\n");
  const Table table = read_table(file);
  CHECK(table.rows == Rows{{6, R"({"a":"4","b":"5"})"}});
  std::vector<std::string> reasons;
  for (const auto& reason : table.bad_lines.reasons()) reasons.push_back(reason.first + " " + reason.reason);
  const std::string line = file.string() + ": line ";
  CHECK(reasons == std::vector<std::string>{line + "2 has 1 field where the first row names 2",
                                            line + "3 has text behind the quotation mark that ends a field",
                                            line + "4 is not UTF-8",
                                            line + "5 has 3 fields where the first row names 2"});
}

TEST_CASE("A table that cannot be read is refused by name") {
  const TemporaryDirectory folder;
  const auto refused = [&](const std::string& text, const std::vector<std::string>& parts) {
    const auto file = folder.write("a.csv", text);
    require_error(ExitCode::bad_data, parts, [&] {
      CsvReader reader(file, "text");
      for (Record record; reader.next(record);) {
      }
    });
  };
  refused("", {"a.csv: is empty"});
  refused("text,a,text\n", {"a.csv: has two columns \"text\""});
  refused("body,title\nx,y\n", {"a.csv: has no column \"text\"", "\"body\", \"title\""});
  refused("text\nx\n\"open\nand on\n", {"a.csv: line 3 has a quotation mark"});
  refused("\xff,text\n", {"a.csv: its first row", "is not UTF-8"});
}

TEST_CASE("Reading a table goes on where it was left") {
  const TemporaryDirectory folder;
  const auto file = folder.write("a.csv", "text\nfirst\n\"a\nb\"\n\nlast\n");
  CsvReader whole(file, "text");
  std::vector<std::pair<std::int64_t, std::int64_t>> places;
  std::vector<std::string> texts;
  for (Record record; places.emplace_back(whole.offset(), whole.lines()), whole.next(record);)
    texts.push_back(record.text);
  REQUIRE(texts.size() == 3);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    CsvReader rest(file, "text");
    rest.skip(places[i].first, places[i].second);
    Record record;
    REQUIRE(rest.next(record));
    CHECK(record.text == texts[i]);
  }
}

}  // namespace llmtrain::test
