// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"
#include "parallel/plan/published/rows.h"
#include "tests/support/source_folder.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::published {
namespace {

using Catch::Matchers::Contains;

const std::filesystem::path published_rows = test::source_folder() / "recipes/published";

bool is_speed(const Row& row) { return row.metric == "step_seconds" || row.metric.find("_per_") != std::string::npos; }

TEST_CASE("every published speed that one recipe states has a name of its own") {
  std::map<std::string, int> names;
  int others = 0;
  for (const char* file : {"calibration.csv", "programs.csv", "llmtrain.csv", "trainers.csv", "megatron-bridge.csv"})
    for (const Row& row : read_rows(published_rows / file)) {
      CAPTURE(row.source, row.note);
      CHECK(row.name.empty() == !(is_speed(row) && row.recipe_texts.size() == 1));
      row.name.empty() ? ++others : ++names[row.name];
    }
  CHECK(others > 0);
  for (const auto& [name, rows] : names) {
    CAPTURE(name);
    CHECK(rows == 1);
  }
  CHECK(named_rows(published_rows).size() == names.size());
}

TEST_CASE("rows of devices whose profile is based on another one are planned with the whole of both") {
  const Shelf shelf(test::source_folder() / "recipes");
  int borrowed = 0;
  for (const Row& row : read_rows(published_rows / "megatron-bridge.csv")) {
    if (row.hardware != "gb200") continue;
    const ClusterProfile profile = shelf.profile_of(row);
    const ClusterProfile base = load_profile("b200", test::source_folder() / "recipes/clusters");
    CHECK(profile.borrowed_from == "b200");
    CHECK(profile.node.devices == 72);
    CHECK(profile.matrix.peak_fraction == base.matrix.peak_fraction);
    CHECK(profile.operators->measured_on == "b200");
    if (++borrowed == 3) break;
  }
  CHECK(borrowed == 3);
}

TEST_CASE("a published speed is the same in whatever unit it is stated") {
  // 4 devices, 8 sequences of 512 tokens, planned as a step of 2 s.
  PlanReport report;
  report.mesh.data = 4;
  report.step.seconds = 2;
  report.throughput.samples_per_second = 4;
  report.throughput.tokens_per_second_per_device = 512;
  report.throughput.model_tflops_per_device = 100;
  const auto speed = [&](const char* metric, double value) {
    Row row;
    row.metric = metric;
    row.value = value;
    return measured_speed(row, report);
  };
  // A step of 1 s.
  CHECK(speed("step_seconds", 1) == Approx(1024));
  CHECK(speed("samples_per_second", 8) == Approx(1024));
  CHECK(speed("samples_per_second_per_device", 2) == Approx(1024));
  CHECK(speed("tokens_per_second_per_device", 1024) == Approx(1024));
  CHECK(speed("model_tflops_per_device", 200) == Approx(1024));
}

TEST_CASE("a measured memory is the fullest rank's, or the first one's where that is what was written down") {
  PlanReport report;
  report.ranks.resize(2);
  report.ranks[0].peak_bytes = 3e9;
  report.ranks[1].peak_bytes = 5e9;
  for (PlannedRank& rank : report.ranks) rank.bytes[MemoryCategory::framework] = 1e9;
  Row row;
  row.metric = "peak_memory";
  row.unit = "GB";
  CHECK(value_of(row, {report}).value() == Approx(5));
  row.is_allocated = true;
  CHECK(value_of(row, {report}).value() == Approx(4));
  row.is_of_first = true;
  CHECK(value_of(row, {report}).value() == Approx(2));
  int firsts = 0;
  for (const Row& read : read_rows(published_rows / "trainers.csv")) {
    CHECK((read.is_of_first == (read.program == "nanotron" && read.metric == "peak_memory")));
    firsts += read.is_of_first ? 1 : 0;
    if (read.is_of_first) CHECK(read.is_allocated);
  }
  CHECK(firsts == 97);
}

TEST_CASE("an unknown measurement is refused with those of the nearest source") {
  const auto rows = named_rows(published_rows);
  CHECK(row_named("torchtitan-1", rows).program.starts_with("torchtitan"));
  CHECK_THROWS_WITH(row_named("torchtitn-1", rows), Contains("torchtitan-1 to torchtitan-11"));
  CHECK_THROWS_WITH(row_named("nanotron-1000", rows), Contains("nanotron-1 to nanotron-26"));
  CHECK_THROWS_WITH(row_named("qqqqqqqqqqqqqq", rows),
                    Contains("published:qqqqqqqqqqqqqq: no measurement has this name; --explain published: lists"));
}

TEST_CASE("a damaged file of measurements is named with its line") {
  const test::TemporaryDirectory folder;
  CHECK_THROWS_AS(named_rows(folder.path()), Error);
  // Its first line names the columns.
  const std::string text = read_file(published_rows / "llmtrain.csv");
  const std::size_t end = text.find('\n');
  write_file_atomically(folder.path() / "short.csv", text.substr(0, end) + "\na,b\n");
  CHECK_THROWS_WITH(read_rows(folder.path() / "short.csv"), Contains("short.csv: line 2 has 2 columns; must have"));
  std::string broken = text.substr(0, text.find('\n', end + 1) + 1);
  broken.replace(broken.find("h200,1,8,gpt2"), 6, "h200,one");
  write_file_atomically(folder.path() / "broken.csv", broken);
  CHECK_THROWS_WITH(read_rows(folder.path() / "broken.csv"), Contains("broken.csv: line 2: "));
}

}  // namespace
}  // namespace llmtrain::published
