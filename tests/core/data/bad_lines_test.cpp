// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/bad_lines.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "core/data/records/line_records.h"
#include "core/data/samples/labelled_documents.h"
#include "tests/core/data/data_files.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

using Reasons = std::vector<BadLines::Reason>;

// The good lines' texts, and what became of the others.
struct Outcome {
  std::string texts;
  BadLines bad_lines{OnBadLine::skip};
};

Outcome read_lines(const std::filesystem::path& file, std::size_t longest) {
  Outcome outcome;
  LineReader reader(file, longest);
  for (Record record; outcome.bad_lines.next(reader, record);)
    outcome.texts += record.text + std::to_string(record.line);
  return outcome;
}

}  // namespace

TEST_CASE("Reading goes on behind a line that is too long") {
  const TemporaryDirectory folder;
  const std::string too_long(3'000'000, 'x');  // over several blocks
  const auto file = folder.write("a.jsonl", "a\n" + too_long + "\nb\n\n" + too_long);
  const Outcome outcome = read_lines(file, 1024);
  CHECK(outcome.texts == "a1b3");
  CHECK(outcome.bad_lines.reasons() == Reasons{{"is longer than 1.00 KiB, the most that a line of JSON Lines may have",
                                                2, file.string() + ": line 2"}});
}

TEST_CASE("Reasons are counted with the first place of each, survive JSON, and stay few") {
  BadLines lines(OnBadLine::skip), later(OnBadLine::skip);
  const auto throw_one = [](BadLines& into, const std::string& reason, std::int64_t line) {
    CHECK_FALSE(into.read([&]() -> int { throw BadLine("a.jsonl", line, reason); }));
  };
  throw_one(lines, "is b", 2);
  throw_one(later, "is a", 3);
  throw_one(later, "is b", 4);
  lines.add(later);
  CHECK(lines.reasons() == Reasons{{"is b", 2, "a.jsonl: line 2"}, {"is a", 1, "a.jsonl: line 3"}});
  CHECK(lines.sentences() ==
        std::vector<std::string>{R"(2 lines were skipped (data.on_bad_line): "is b", first in a.jsonl: line 2)",
                                 R"(1 line was skipped (data.on_bad_line): "is a", first in a.jsonl: line 3)"});
  CHECK(BadLines::of_json(lines.json()).reasons() == lines.reasons());
  CHECK(lines.read([] { return 7; }) == 7);
  for (int i = 0; i < 1000; ++i) throw_one(lines, "says " + std::to_string(i), i);
  CHECK(lines.reasons().size() == BadLines::most_reasons);
  CHECK(lines.count() == 1003);
}

TEST_CASE("A bad line ends what reads it, with its place, reason, and what to do") {
  BadLines lines;
  require_error(ExitCode::bad_data, {"a.jsonl: line 3 is no list; write a list; correct it, or skip such lines"},
                [&] { lines.read([]() -> int { throw BadLine("a.jsonl", 3, "is no list", "write a list"); }); });
}

// Each of the four for a reason of its own, beside one that stays whole.
TEST_CASE("Conversations that are left out are counted apart: bad, without an answer, too long, truncated") {
  const TemporaryDirectory folder;
  const std::string lines = R"({"prompt": "PP", "completion": "CC"})"
                            "\n[]\n"
                            R"({"prompt": "P", "completion": ""})"
                            "\n"
                            R"({"prompt": "PPPPPPPP", "completion": "C"})"
                            "\n"
                            R"({"prompt": "P", "completion": "CCCCCCCC"})"
                            "\n{\"prompt\": 3}\n"
                            R"({"chosen": "a", "rejected": "b"})"
                            "\n";
  const auto file = folder.write("a.jsonl", lines);
  const auto documents = LabelledDocuments::open(file.string(), {}, {}, 6, {256}, OnBadLine::skip);
  const LeftOut& left_out = documents->left_out();
  CHECK(documents->documents() == 2);
  CHECK(left_out.bad_lines.count() == 3);
  CHECK(left_out.bad_lines.reasons().front() ==
        BadLines::Reason{"is not a JSON object", 1, file.string() + ": line 2"});
  CHECK((left_out.no_answer == 1 && left_out.too_long == 1 && left_out.truncated == 1));
  CHECK(sentences_of(left_out, 6).size() == 6);
  require_error(ExitCode::bad_data, {"a.jsonl: line 2 is not a JSON object", "data.on_bad_line"},
                [&] { LabelledDocuments::open(file.string(), {}, {}, 6, {256}); });
}

TEST_CASE("Where all lines are bad the error says why") {
  const TemporaryDirectory folder;
  const auto file = folder.write("a.jsonl", "[]\n{}\n");
  require_error(ExitCode::bad_data, {"holds no document", "1 line was skipped", "is not a JSON object"},
                [&] { LabelledDocuments::open(file.string(), {}, {}, 6, {256}, OnBadLine::skip); });
  TextFormat format;
  format.on_bad_line = OnBadLine::skip;
  require_error(ExitCode::bad_data, {"holds 0 tokens", "2 lines were skipped", "has no string \"text\""}, [&] {
    Dataset({{file.string(), 1}}, format, 4, 256, false, 1, "/data/train");
  });
}

}  // namespace llmtrain::test
