// SPDX-License-Identifier: Apache-2.0
// Windows of texts; tests/oracle/rolling_evaluation_test.py compares what they are worth with lm-evaluation-harness.
#include "core/data/rolling/rolling_texts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/data/rolling/rolling_samples.h"
#include "tests/core/data/data_files.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

RollingTexts open_texts(const TemporaryDirectory& folder, const std::string& lines, std::int64_t window,
                        OnBadLine on_bad_line = OnBadLine::stop) {
  Recipe recipe;
  recipe.model.vocab_size = 256;
  recipe.data.on_bad_line = on_bad_line;
  const std::string path = folder.write("a.jsonl", lines).string();
  return {{DataSource{path, 1, "text"}}, recipe, window, "--data"};
}

// By target, how often it counts. Texts of different letters tell all targets apart.
std::map<std::int64_t, int> scored(const RollingSamples& samples, std::int64_t length) {
  std::map<std::int64_t, int> times;
  double weight = 0;
  for (std::int64_t number = 0; number < samples.samples(); ++number) {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(length)), targets(ids), starts(ids);
    std::vector<std::uint8_t> marks(ids.size());
    FieldMemory memory;
    memory.set(BatchField::token_ids, std::span(ids));
    memory.set(BatchField::targets, std::span(targets));
    memory.set(BatchField::counted_rows, std::span(marks));
    memory.document_starts.emplace_back(starts);
    samples.read(number, memory);
    for (std::size_t row = 0; row < ids.size(); ++row) {
      if (marks[row] != 0) times[targets[row]] += 1;
      // What counts is predicted after what stands before it, in the window that has begun.
      if (marks[row] != 0 && starts[row] == 0) CHECK(ids[row] == targets[row - 1]);
    }
    weight += samples.weight(0, number, 1);
  }
  CHECK(weight == samples.weight(0, 0, samples.samples()));
  return times;
}

}  // namespace

TEST_CASE("Every token of texts is scored once, whatever window and sample there is") {
  const TemporaryDirectory folder;
  const std::string lines =
      "{\"text\": \"abcdefghijk\"}\n{\"text\": \"\"}\n{\"text\": \"xyz\"}\n{\"text\": \"ABCDE\"}\n";
  for (const std::int64_t window : {1, 2, 3, 4, 5, 11, 12, 30}) {
    const RollingTexts texts = open_texts(folder, lines, window);
    CHECK(texts.counts() == RollingTexts::Counts{4, 4, 19, 19});
    CHECK(texts.longest_window() == std::min<std::int64_t>(window, 11));
    for (const std::int64_t length : {texts.longest_window(), texts.longest_window() + 2, std::int64_t{64}}) {
      const auto times = scored(RollingSamples(texts, length), length);
      CHECK(times.size() == 19);
      CHECK(std::ranges::all_of(times, [](const auto& entry) { return entry.second == 1; }));
    }
  }
}

TEST_CASE("The last window of a long text has context as far as it goes") {
  const TemporaryDirectory folder;
  using Windows = std::vector<RollingTexts::Window>;
  CHECK(open_texts(folder, "{\"text\": \"abcdefghij\"}\n", 4).windows() == Windows{{0, 4, 4}, {4, 4, 4}, {6, 4, 2}});
  CHECK(open_texts(folder, "{\"text\": \"abc\"}\n{\"text\": \"d\"}\n", 4).windows() == Windows{{0, 3, 3}, {4, 1, 1}});
}

TEST_CASE("Words lie between white space as Python has it, and bad lines are counted") {
  const TemporaryDirectory folder;
  const std::string text = R"({"text": " a\u2003b\u00a0\u001cc d\u200be\n"})";
  CHECK(open_texts(folder, text, 4).counts().words == 6);
  const std::string lines = text + "\n[1]\n{\"text\": \"x\"}\n";
  CHECK(open_texts(folder, lines, 4, OnBadLine::skip).bad_lines().count() == 1);
  require_error(ExitCode::bad_data, {"--data: ", "a.jsonl: line 2"}, [&] { open_texts(folder, lines, 4); });
}

}  // namespace llmtrain::test
