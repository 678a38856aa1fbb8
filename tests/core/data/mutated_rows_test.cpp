// SPDX-License-Identifier: Apache-2.0
// Rows that nobody meant are read, or refused by line and reason; nothing crashes, hangs or is lost from the counts.
#include <catch2/catch.hpp>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "core/data/conversations/conversation.h"
#include "core/data/records/bad_lines.h"
#include "core/data/records/csv_records.h"
#include "core/data/records/documents.h"
#include "core/data/records/json_records.h"
#include "core/data/records/line_records.h"
#include "core/data/records/text_record.h"
#include "core/data/samples/labelled_documents.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

const std::vector<std::string> good_rows = {
    R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes \u00e9\n"}]})",
    R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b", "weight": 0}], "system": "s"})",
    R"({"prompt": "ab", "completion": "c"})",
    R"({"prompt": [{"role": "user", "content": [{"type": "text", "text": "q"}]}], "completion": []})",
    R"({"instruction": "do", "input": "", "output": "done"})",
    R"({"text": "a document", "tools": null, "documents": []})"};

class Mutations {
 public:
  explicit Mutations(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t end) { return random_() % end; }

  // A row with up to three changes: a byte, a piece taken out, doubled or from elsewhere, or a value of another type.
  std::string mutated() {
    std::string row = good_rows[below(good_rows.size())];
    for (std::size_t i = below(4); i > 0 && !row.empty(); --i) mutate(row);
    std::erase(row, '\n');
    return row;
  }

 private:
  void mutate(std::string& row) {
    static const std::vector<std::string> pieces = {
        "null", "[]",   "{}",       "-1e999",        "\"\\ud800\"", "\"", "[[[[[[[[", "\\u0000",
        "\xff", "true", "\"role\"", "\"assistant\"", "{%",          ",",  ":"};
    const std::size_t place = below(row.size()), length = below(row.size() - place) % 12;
    switch (below(5)) {
      case 0:
        row[place] = static_cast<char>(below(256));
        return;
      case 1:
        row.erase(place, length);
        return;
      case 2:
        row.insert(place, row.substr(below(row.size()), length));
        return;
      case 3:
        row.replace(place, length, pieces[below(pieces.size())]);
        return;
      default:
        row.insert(place, pieces[below(pieces.size())]);
    }
  }

  std::mt19937 random_;
};

std::string rows_of(unsigned seed, int count) {
  Mutations mutations(seed);
  std::string rows;
  for (int i = 0; i < count; ++i) rows += mutations.mutated() + "\n";
  return rows;
}

// Reads to the end, or to an error that names the file.
void read_all(RecordReader& reader, const std::filesystem::path& file, const std::function<void(Record&)>& use) {
  BadLines bad_lines(OnBadLine::skip);
  try {
    for (Record record; bad_lines.next(reader, record);) bad_lines.read([&] { return use(record), 0; });
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_data);
    CHECK(std::string(error.what()).starts_with(file.string() + ": "));
  }
}

}  // namespace

TEST_CASE("Mutated conversations train or are counted, each one") {
  const TemporaryDirectory folder;
  constexpr int rows = 10'000;
  const auto file = folder.write("a.jsonl", rows_of(1, rows));
  std::int64_t records = 0;
  LineReader reader(file);
  for (Record record; reader.next(record);) ++records;
  const auto documents = LabelledDocuments::open(file.string(), {}, {}, 512, {256}, OnBadLine::skip);
  const LeftOut& left_out = documents->left_out();
  CHECK(records > rows * 9 / 10);
  CHECK(documents->documents() + left_out.bad_lines.count() + left_out.no_answer + left_out.too_long == records);
  // Both happen often, or nothing was tried.
  CHECK(documents->documents() > 500);
  CHECK(left_out.bad_lines.count() > 2000);
}

TEST_CASE("Each reader takes any bytes, or refuses the file by name") {
  const TemporaryDirectory folder;
  const FineTuningRecipe recipe;
  ConversationReader conversations(recipe, {});
  for (unsigned seed = 1; seed <= 60; ++seed) {
    const std::string rows = rows_of(seed, 20);
    const auto file = folder.write("rows", seed % 2 == 0 ? rows : "[" + rows + "]");
    const auto table = folder.write("table.csv", "text,b\n" + rows);
    const auto converse = [&](Record& record) { conversations.read(record, file); };
    const auto document = [&](Record& record) { document_of(record, file, "text"); };
    LineReader lines(file);
    read_all(lines, file, document);
    JsonRecordReader json(file);
    read_all(json, file, converse);
    TextReader text(file);
    read_all(text, file, document);
    CsvReader csv(table, "text");
    read_all(csv, table, [&](Record& record) { document_of(record, table, "text"); });
  }
}

}  // namespace llmtrain::test
