// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "tests/core/data/data_files.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {

TEST_CASE("An error names the role and the index of its source") {
  const TemporaryDirectory folder;
  const std::string good = folder.write("a.txt", "long enough").string();
  const std::string missing = (folder.path() / "b.txt").string();
  require_error(ExitCode::missing_input, {"data/validation/1/path: ", missing, "no such file"}, [&] {
    Dataset({{good, 1}, {missing, 1}}, {}, 4, 256, false, 1, "data/validation");
  });
}

TEST_CASE("A glob without match is missing input with its pointer") {
  const TemporaryDirectory folder;
  const std::string pattern = (folder.path() / "*.txt").string();
  require_error(ExitCode::missing_input, {"/data/train/0/path: ", pattern}, [&] { open(pattern, {}); });
}

TEST_CASE("A source one token short of a sample is refused with both counts") {
  const TemporaryDirectory folder;
  const std::string path = folder.write("a.txt", "1234").string();
  require_error(ExitCode::bad_data, {"/data/train/0/path", path, "holds 4 tokens in 1 file", "needs 5"},
                [&] { open(path, {.sequence_length = 4}); });
  CHECK(open(path, {.sequence_length = 3}).samples() == 1);
}

TEST_CASE("An empty file is refused, in every format") {
  const TemporaryDirectory folder;
  folder.write("d.idx", megatron_index({}));
  for (const auto& [name, bytes] : {std::pair<std::string, std::string>{"a.txt", ""},
                                    {"b.bin", ""},
                                    {"c.bin", llmc_header(20240520, 1, 0)},
                                    {"d.bin", ""},
                                    {"e.jsonl", "\n"}}) {
    const std::string path = folder.write(name, bytes).string();
    require_error(ExitCode::bad_data, {path, "holds 0 tokens", "needs 5"}, [&] { open(path, {}); });
  }
}

TEST_CASE("One short source in a blend is refused, however long the others are") {
  const TemporaryDirectory folder;
  const std::string good = folder.write("a.txt", "long enough").string();
  const std::string shorter = folder.write("b.txt", "abc").string();
  require_error(ExitCode::bad_data, {"/data/train/1/path", "holds 3 tokens"}, [&] {
    open({{good, 1}, {shorter, 1}}, {});
  });
}

TEST_CASE("Having no source is a recipe error") {
  require_error(ExitCode::bad_recipe, {"/data/train", "path"}, [] { open(std::vector<DataSource>{}, {}); });
}

TEST_CASE("A weight that is not a positive number is a recipe error") {
  const TemporaryDirectory folder;
  const std::string path = folder.write("a.txt", "long enough").string();
  for (const double weight : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::nan("")}) {
    require_error(ExitCode::bad_recipe, {"/data/train/1/weight", "positive"}, [&] {
      open({{path, 1}, {path, weight}}, {});
    });
  }
}

TEST_CASE("An invalid number or memory is refused") {
  const TemporaryDirectory folder;
  const auto dataset = open(folder.write("a.txt", "long enough").string(), {});
  CHECK_THROWS_AS(sample(dataset, -1, 4), std::invalid_argument);
  CHECK_THROWS_AS(sample(dataset, 0, 5), std::invalid_argument);
}

TEST_CASE("An id that has come into an open file is refused with the file and its place there") {
  const TemporaryDirectory folder;
  folder.write("a.bin", little_endian<std::uint16_t>(Tokens{1, 2, 3}));
  const std::string path = folder.write("b.bin", little_endian<std::uint16_t>(Tokens{1, 2, 3, 4, 5, 6, 7})).string();
  const auto dataset = open((folder.path() / "*.bin").string(), {.vocab_size = 8});
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8).write("\x08\x00", 2);
  file.close();
  sample(dataset, 0, 4);  // 1 2 3 | 1 2
  require_error(ExitCode::bad_data, {path + ": token 4 has the id 8", "(8)"}, [&] { sample(dataset, 1, 4); });
}

TEST_CASE("Reading data ends where that is asked for, in every format, and is no error of a source") {
  const TemporaryDirectory folder;
  const std::string conversation = R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})";
  for (const auto& [name, bytes] : {std::pair<std::string, std::string>{"a.txt", "long enough"},
                                    {"b.bin", std::string(16, '\0')},
                                    {"e.jsonl", "{\"text\":\"long enough\"}\n"},
                                    {"f.jsonl", conversation + "\n"}}) {
    TextFormat format;
    const bool is_labelled = name == "f.jsonl";
    if (is_labelled) format.fine_tuning.emplace();
    const std::vector<DataSource> sources{{folder.write(name, bytes).string(), 1}};
    int reports = 0;
    const auto read = [&](int stop_at) {
      reports = 0;
      const WorkMonitor monitor([&] { return ++reports == stop_at; }, WorkMonitor::Lines::none);
      Dataset(sources, format, is_labelled ? 128 : 4, 256, false, 1, "/data/train", monitor);
    };
    INFO(name);
    read(0);
    const int all = reports;
    CHECK(all > 1);
    for (int stop_at = 1; stop_at <= all; ++stop_at)
      require_error(ExitCode::stopped, {"while reading " + sources.front().path}, [&] { read(stop_at); });
  }
}

}  // namespace llmtrain::test
