// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/metrics_log.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "tests/parallel/run/captured_log.h"
#include "tests/parallel/run/full_disk.h"
#include "tests/support/child_process.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using test::TemporaryDirectory;

const LogRecipe plain{"", 1, false};

TrainingRow row_of(std::int64_t step) {
  TrainingRow row;
  row.step = step;
  row.loss = 1.0 / static_cast<double>(step + 3);
  row.tokens = 256 * step;
  return row;
}

std::vector<std::string> lines_of(const fs::path& folder) {
  std::vector<std::string> lines;
  std::istringstream text(read_file(folder / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

// "T3" for a training row of step 3, "E3" for an evaluation row.
std::string outline(const fs::path& folder) {
  std::string steps;
  for (const std::string& line : lines_of(folder)) {
    const auto row = ordered_json::parse(line);
    steps += row.contains("loss") ? 'T' : 'E';
    steps += row["step"].dump();
  }
  return steps;
}

// Steps 1 to `steps`, with an evaluation before the first and after every second step.
void write_run(const fs::path& folder, std::int64_t steps) {
  MetricsLog log(folder, plain, 0);
  log.write(EvaluationRow{0, 5});
  for (std::int64_t step = 1; step <= steps; ++step) {
    log.write(row_of(step));
    if (step % 2 == 0) log.write(EvaluationRow{step, 4});
  }
}

TEST_CASE("a training row has the specified keys in this order") {
  const TemporaryDirectory folder;
  const TrainingRow row{7, 2.5, 3e-4, 0.125, 4096, 0.5, 1024, 0.25, 1'000'000, 900'000, 2};
  MetricsLog(folder.path(), plain, 0).write(row);
  CHECK(read_file(folder.path() / "metrics.jsonl") ==
        "{\"step\":7,\"loss\":2.5,\"learning_rate\":0.0003,\"grad_norm\":0.125,\"tokens\":4096,\"step_seconds\":0.5,"
        "\"tokens_per_second\":1024,\"mfu\":0.25,\"memory_bytes\":1000000,\"tensor_bytes\":900000,\"skipped\":2}\n");
}

TEST_CASE("a training row of a model with experts ends with its routing") {
  const TemporaryDirectory folder;
  TrainingRow row = row_of(1);
  MetricsLog log(folder.path(), plain, 0);
  log.write(row);
  row.routing = {1.25, 4.5, 0.125, 2, 0.75};
  log.write(row);
  const std::string without = lines_of(folder.path())[0];
  CHECK(lines_of(folder.path())[1] ==
        without.substr(0, without.size() - 1) +
            R"(,"balance_loss":1.25,"z_loss":4.5,"dropped_share":0.125,"expert_load":2,"router_entropy":0.75})");
}

TEST_CASE("routing.jsonl has a row for each step and layer with experts, and loses those that a resumed run repeats") {
  const TemporaryDirectory folder;
  const LogRecipe recipe{.directory = "", .tensorboard = false, .routing = true};
  {
    MetricsLog log(folder.path(), recipe, 0);
    log.write_routing(1, {{}, {3, 0, 13}, {}, {5, 5, 6}});
    log.write_routing(2, {{}, {1, 2, 13}, {}, {6, 5, 5}});
  }
  MetricsLog(folder.path(), recipe, 1).write_routing(2, {{}, {16, 0, 0}, {}, {0, 0, 16}});
  CHECK(read_file(folder.path() / "routing.jsonl") ==
        "{\"step\":1,\"layer\":1,\"chosen\":[3,0,13]}\n{\"step\":1,\"layer\":3,\"chosen\":[5,5,6]}\n"
        "{\"step\":2,\"layer\":1,\"chosen\":[16,0,0]}\n{\"step\":2,\"layer\":3,\"chosen\":[0,0,16]}\n");
}

TEST_CASE("a training row with FP8 gradients says how many of them saturated") {
  const TemporaryDirectory folder;
  TrainingRow row = row_of(1);
  row.saturated_share = 0.25;
  MetricsLog(folder.path(), plain, 0).write(row);
  CHECK_THAT(lines_of(folder.path())[0], Catch::EndsWith(R"(,"saturated_share":0.25})"));
}

TEST_CASE("a training row with fp16 has its loss scale") {
  const TemporaryDirectory folder;
  TrainingRow row = row_of(1);
  row.loss_scale = 65536;
  MetricsLog(folder.path(), plain, 0).write(row);
  CHECK_THAT(lines_of(folder.path())[0], Catch::EndsWith(R"(,"loss_scale":65536})"));
}

TEST_CASE("a training row describes FP8 tensors on request") {
  const TemporaryDirectory folder;
  TrainingRow row = row_of(1);
  row.fp8 = {{"inputs", 7, 16, 64, 0, 0.25, 31.5}, {"weights", 1, 448, 448, 0, 0, INFINITY}};
  MetricsLog(folder.path(), plain, 0).write(row);
  CHECK_THAT(lines_of(folder.path())[0],
             Catch::EndsWith(R"(,"fp8":{"inputs":{"amax":7,"smallest_scale":16,"largest_scale":64,"saturated_share":0,)"
                             R"("underflowed_share":0.25,"snr_db":31.5},"weights":{"amax":1,"smallest_scale":448,)"
                             R"("largest_scale":448,"saturated_share":0,"underflowed_share":0,"snr_db":null}}})"));
}

TEST_CASE("an evaluation row has its step and its loss") {
  const TemporaryDirectory folder;
  MetricsLog(folder.path(), plain, 0).write(EvaluationRow{50, 1.75});
  CHECK(read_file(folder.path() / "metrics.jsonl") == "{\"step\":50,\"validation_loss\":1.75}\n");
}

TEST_CASE("rows have the terms of a loss by name where there are several") {
  const TemporaryDirectory folder;
  TrainingRow row = row_of(1);
  row.terms = {{"loss", 0.1}, {"second", 2}};
  {
    MetricsLog log(folder.path(), {.directory = "", .tensorboard = true}, 0);
    log.write(row);
    log.write(EvaluationRow{1, 1.75, {{"loss", 1.5}, {"second", NAN}}});
  }
  CHECK_THAT(lines_of(folder.path())[0], Catch::EndsWith(R"(,"loss_terms":{"loss":0.10000000000000001,"second":2}})"));
  CHECK(lines_of(folder.path())[1] == R"({"step":1,"validation_loss":1.75,"loss_terms":{"loss":1.5,"second":null}})");
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    if (file.path().filename() == "metrics.jsonl") continue;
    CHECK_THAT(read_file(file.path()), Catch::Contains("train/loss_terms/second"));
    CHECK_THAT(read_file(file.path()), Catch::Contains("validation/loss_terms/second"));
  }
}

TEST_CASE("losses have 17 significant digits") {
  const TemporaryDirectory folder;
  TrainingRow row;
  row.loss = 0.1;
  MetricsLog log(folder.path(), plain, 0);
  log.write(row);
  log.write(EvaluationRow{0, 1.1});
  CHECK_THAT(lines_of(folder.path())[0], Catch::Contains("\"loss\":0.10000000000000001,"));
  CHECK_THAT(lines_of(folder.path())[1], Catch::Contains("\"validation_loss\":1.1000000000000001}"));
}

TEST_CASE("every number reads back as the same bits") {
  const TemporaryDirectory folder;
  MetricsLog log(folder.path(), plain, 0);
  std::mt19937_64 random(1);
  std::vector<double> values{0.0, -0.0, 5e-324, std::numeric_limits<double>::max(), 1e22, 1e16, -1.5};
  while (values.size() < 500) {
    const auto value = std::bit_cast<double>(random());
    if (std::isfinite(value)) values.push_back(value);
  }
  for (const double value : values) log.write(TrainingRow{1, value, value, value, 1, value, value, value, 1, 1, 0});
  const auto lines = lines_of(folder.path());
  REQUIRE(lines.size() == values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto row = ordered_json::parse(lines[i]);
    for (const char* key : {"loss", "learning_rate", "grad_norm", "step_seconds", "tokens_per_second", "mfu"})
      CHECK(std::strtod(row[key].dump().c_str(), nullptr) == values[i]);
  }
}

TEST_CASE("a number that is not finite is null") {
  const TemporaryDirectory folder;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  MetricsLog log(folder.path(), plain, 0);
  log.write(TrainingRow{1, nan, -infinity, infinity, 1, nan, nan, infinity, 1, 1, 1});
  log.write(EvaluationRow{1, nan});
  const auto training = ordered_json::parse(lines_of(folder.path())[0]);
  for (const char* key : {"loss", "learning_rate", "grad_norm", "step_seconds", "tokens_per_second", "mfu"})
    CHECK(training[key].is_null());
  CHECK(training["skipped"] == 1);
  CHECK(lines_of(folder.path())[1] == R"({"step":1,"validation_loss":null})");
}

TEST_CASE("a row is readable as soon as it is written") {
  const TemporaryDirectory folder;
  MetricsLog log(folder.path(), plain, 0);
  CHECK(outline(folder.path()).empty());
  log.write(row_of(1));
  CHECK(outline(folder.path()) == "T1");
  log.write(EvaluationRow{1, 2});
  CHECK(outline(folder.path()) == "T1E1");
}

TEST_CASE("a resumed run drops the rows of steps that it repeats, and keeps the others byte for byte") {
  const TemporaryDirectory folder;
  write_run(folder.path(), 6);
  const std::string before = read_file(folder.path() / "metrics.jsonl");
  REQUIRE(outline(folder.path()) == "E0T1T2E2T3T4E4T5T6E6");
  MetricsLog log(folder.path(), plain, 4);
  CHECK(outline(folder.path()) == "E0T1T2E2T3T4E4");
  CHECK(before.starts_with(read_file(folder.path() / "metrics.jsonl")));
  log.write(row_of(5));
  CHECK(outline(folder.path()) == "E0T1T2E2T3T4E4T5");
}

TEST_CASE("a run that repeats the evaluation after its last step drops the row of it alone") {
  const TemporaryDirectory folder;
  write_run(folder.path(), 6);
  MetricsLog log(folder.path(), plain, 4, true);
  CHECK(outline(folder.path()) == "E0T1T2E2T3T4");
  log.write(EvaluationRow{4, 2});
  CHECK(outline(folder.path()) == "E0T1T2E2T3T4E4");
}

TEST_CASE("a run that starts over keeps no row, not even that of step 0") {
  const TemporaryDirectory folder;
  write_run(folder.path(), 3);
  const MetricsLog log(folder.path(), plain, 0);
  CHECK(read_file(folder.path() / "metrics.jsonl").empty());
}

TEST_CASE("a file without rows to drop stays the same file") {
  const TemporaryDirectory folder;
  write_run(folder.path(), 4);
  struct stat before {
  }, after{};
  REQUIRE(::stat((folder.path() / "metrics.jsonl").c_str(), &before) == 0);
  const MetricsLog log(folder.path(), plain, 4);
  REQUIRE(::stat((folder.path() / "metrics.jsonl").c_str(), &after) == 0);
  CHECK(before.st_ino == after.st_ino);
  CHECK(outline(folder.path()) == "E0T1T2E2T3T4E4");
}

TEST_CASE("a last row that was truncated at any byte is dropped") {
  const TemporaryDirectory folder;
  write_run(folder.path(), 3);
  const fs::path file = folder.path() / "metrics.jsonl";
  const std::string whole = read_file(file);
  const std::size_t last = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t size = last; size < whole.size(); ++size) {
    const test::CapturedLog messages;
    INFO("cut after " << size - last << " bytes of " << whole.size() - last);
    folder.write("metrics.jsonl", whole.substr(0, size));
    const MetricsLog log(folder.path(), plain, 3);
    REQUIRE(outline(folder.path()) == "E0T1T2E2");
    REQUIRE(messages.text().empty() == (size == last));
  }
  folder.write("metrics.jsonl", whole);
  const MetricsLog log(folder.path(), plain, 3);
  CHECK(outline(folder.path()) == "E0T1T2E2T3");
}

TEST_CASE("lines that are not rows are dropped, wherever they are") {
  const TemporaryDirectory folder;
  const test::CapturedLog messages;
  const std::string zeros(40, '\0');
  folder.write("metrics.jsonl", "{\"step\":1,\"loss\":2}\n" + zeros + "\n\n[1]\n{\"step\":\"2\"}\n{\"step\":1.5}\n" +
                                    std::string(3000, '[') + "\n{\"step\":2,\"validation_loss\":2}\n{}\n");
  const MetricsLog log(folder.path(), plain, 3);
  CHECK(outline(folder.path()) == "T1E2");
  CHECK_THAT(messages.text(), Catch::Contains(": dropped 7 rows that a crash left incomplete"));
}

TEST_CASE("killed at any point of dropping rows, all rows or exactly those to keep are there", "[rights]") {
  const TemporaryDirectory folder;
  write_run(folder.path(), 4);
  const std::string whole = read_file(folder.path() / "metrics.jsonl");
  const std::string kept = whole.substr(0, whole.find("{\"step\":3"));
  if (!test::tracing_is_allowed()) return;
  bool was_whole = false, was_kept = false;
  bool killed = true;
  for (int call = 0; killed; ++call) {
    folder.write("metrics.jsonl", whole);
    killed = test::killed_at_system_call(call, [&] { const MetricsLog log(folder.path(), plain, 2); });
    const std::string now = read_file(folder.path() / "metrics.jsonl");
    INFO("killed in front of system call " << call);
    REQUIRE((now == whole || now == kept));
    (now == whole ? was_whole : was_kept) = true;
  }
  CHECK(was_whole);
  CHECK(was_kept);
}

TEST_CASE("on a full disk writing a row is an error that names the file, and no part of the row remains") {
  const TemporaryDirectory folder;
  CHECK(test::in_child([&]() -> std::string {
          const std::string reason = test::limit_room(folder.path(), 16384);
          MetricsLog log(folder.path(), plain, 0);
          std::int64_t step = 0;
          try {
            while (++step < 1000) log.write(row_of(step));
            return "1000 rows fit";
          } catch (const Error& error) {
            if (error.code() != ExitCode::cannot_write) return "another exit code";
            const std::string start = (folder.path() / "metrics.jsonl").string() + ": cannot be written: " + reason;
            if (!std::string_view(error.what()).starts_with(start)) return error.what();
          }
          const auto lines = lines_of(folder.path());
          if (!read_file(folder.path() / "metrics.jsonl").ends_with("}\n")) return "a part of a row stays";
          return lines.size() + 1 == static_cast<std::size_t>(step) ? "no error"
                                                                    : std::to_string(lines.size()) + " rows";
        }) == "no error");
}

TEST_CASE("a missing folder is an error that names the file") {
  const TemporaryDirectory folder;
  try {
    const MetricsLog log(folder.path() / "absent", plain, 0);
    FAIL("it was made");
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::cannot_write);
    CHECK_THAT(error.what(), Catch::Contains((folder.path() / "absent" / "metrics.jsonl").string()));
  }
}

std::size_t event_files(const fs::path& folder) {
  std::size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder))
    count += entry.path().filename().string().starts_with("events.out.tfevents.") ? 1 : 0;
  return count;
}

TEST_CASE("an event file is created if the recipe enables it, and another one on each resume") {
  const TemporaryDirectory folder;
  LogRecipe recipe = plain;
  MetricsLog(folder.path(), recipe, 0).write(row_of(1));
  CHECK(event_files(folder.path()) == 0);
  recipe.tensorboard = true;
  MetricsLog(folder.path(), recipe, 0).write(row_of(1));
  CHECK(event_files(folder.path()) == 1);
  MetricsLog(folder.path(), recipe, 1).write(row_of(2));
  CHECK(event_files(folder.path()) == 2);
}

}  // namespace
}  // namespace llmtrain
