// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/documents.h"

#include <zstd.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/data/records/line_records.h"
#include "core/data/records/text_record.h"
#include "tests/core/data/data_files.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

using test::require_error;

std::string packed(const std::string& text) {
  std::string bytes(ZSTD_compressBound(text.size()), '\0');
  bytes.resize(ZSTD_compress(bytes.data(), bytes.size(), text.data(), text.size(), 1));
  return bytes;
}

TEST_CASE("a line that is too long is refused before it fills memory, with its file, number and limit") {
  const test::TemporaryDirectory folder;
  const std::string lines = "{\"text\": \"one\"}\n\n{\"text\": \"" + std::string(3000, 'x') + "\"}\n";
  for (const auto& file : {folder.write("a.jsonl", lines), folder.write("b.jsonl.zst", packed(lines))}) {
    LineReader reader(file, 1024);
    Record record;
    CHECK((reader.next(record) && record.line == 1));
    require_error(ExitCode::bad_data,
                  {file.filename().string() + ": line 3 is longer than 1.00 KiB", "divide its document"},
                  [&] { reader.next(record); });
    LineReader whole(file, 3012);
    CHECK((whole.next(record) && whole.next(record) && record.line == 3 && !whole.next(record)));
  }
  // A file of text is no line.
  TextReader text(folder.write("c.txt", lines));
  Record record;
  CHECK((text.next(record) && record.text == lines));
}

TEST_CASE("JSON of documents is rows, and other JSON is a text") {
  const test::TemporaryDirectory folder;
  const auto documents = [&](const std::string& text) {
    const auto file = folder.write("a.json", text);
    const auto reader = open_document_records(file, "text");
    std::vector<std::string> found;
    for (Record record; reader->next(record);) found.push_back(document_of(record, file, "text"));
    CHECK(has_rows(file, "text") == (found != std::vector{text}));
    return found;
  };
  CHECK(documents("[{\"text\": \"a\"},\n {\"text\": \"b\", \"id\": 3}]") == std::vector<std::string>{"a", "b"});
  CHECK(documents("{\"text\": \"a\"} {\"text\": \"b\"}") == std::vector<std::string>{"a", "b"});
  for (const std::string other : {"{\"name\": \"text\"}", "[1, 2]", "{\"text\": 3}", "no JSON", "[{\"te"})
    CHECK(documents(other) == std::vector{other});
}

TEST_CASE("JSON of conversations, prompts or preferences is no text") {
  const test::TemporaryDirectory folder;
  for (const std::string row :
       {R"({"messages": [{"role": "user", "content": "a"}]})",
        R"({"conversations": [{"from": "human", "value": "a"}]})", R"({"prompt": "a", "completion": "b"})",
        R"({"instruction": "a", "input": "", "output": "b"})", R"({"prompt": "a", "chosen": "b", "rejected": "c"})"}) {
    const std::string list = "[" + row + ", " + row + "]";
    for (const auto& file : {folder.write("a.json", list), folder.write("b.json.zst", packed(list)),
                             folder.write("c.jsonl", row + "\n")}) {
      CAPTURE(row, file.filename());
      CHECK(has_rows(file, "text"));
      const auto reader = open_document_records(file, "text");
      Record record;
      REQUIRE(reader->next(record));
      require_error(ExitCode::bad_data, {file.filename().string(), "line 1", "trained on with data.fine_tuning"},
                    [&] { document_of(record, file, "text"); });
    }
  }
}

TEST_CASE("a line of many small values is refused before it is built") {
  // 96 bytes of memory for 3 of the file.
  std::string values = "{\"text\": [[]";
  for (int i = 0; i < 6'000'000; ++i) values += ",[]";
  Record record{values + "]}", 7};
  require_error(ExitCode::bad_data, {"a.jsonl: line 7 takes more than 512 MiB of memory as JSON"},
                [&] { document_of(record, "a.jsonl", "text"); });
}

}  // namespace
}  // namespace llmtrain
