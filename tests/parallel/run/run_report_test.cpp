// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string>

#include "core/base/file.h"
#include "core/recipe/recipe_io.h"
#include "parallel/run/metrics_log.h"
#include "parallel/run/report/comparison.h"
#include "parallel/run/report/live_report.h"
#include "parallel/run/report/prometheus.h"
#include "tests/parallel/run/run_recipe.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using test::run_recipe;
using test::TemporaryDirectory;

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

TrainingRow row_of(std::int64_t step, double loss) {
  TrainingRow row;
  row.step = step;
  row.loss = loss;
  row.learning_rate = 1e-3;
  row.gradient_norm = 2;
  row.tokens = 128 * step;
  row.step_seconds = 0.5;
  row.tokens_per_second = 256;
  row.mfu = 0.25;
  row.memory_bytes = 1000 + step;
  row.tensor_bytes = 500;
  return row;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_CASE("metrics are read as they were written, up to a row that is not complete") {
  const TemporaryDirectory folder;
  TrainingRow row = row_of(3, 1.0 / 3);
  row.routing = RoutingRow{1.5, 2.5, 0.25, 3, 0.5};
  row.loss_scale = 1024;
  row.saturated_share = 0.125;
  row.terms = {{"loss", 0.25}, {"auxiliary", 1.0 / 7}};
  row.skipped = 2;
  row.resumed_after = 2;
  {
    MetricsLog log(folder.path(), {"", 1, false}, 0);
    log.write(EvaluationRow{0, 5.5, {{"loss", 5.25}, {"auxiliary", not_a_number}}});
    log.write(row);
    log.write(row_of(4, not_a_number));
  }
  AppendFile(folder.path() / "metrics.jsonl").append("{\"step\":5,\"lo");
  const RunMetrics metrics = read_metrics(folder.path() / "metrics.jsonl");
  REQUIRE(metrics.training.size() == 2);
  REQUIRE(metrics.evaluations.size() == 1);
  CHECK((metrics.evaluations[0].step == 0 && metrics.evaluations[0].validation_loss == 5.5));
  const TrainingRow& read = metrics.training[0];
  CHECK((read.step == 3 && read.loss == row.loss && read.learning_rate == 1e-3 && read.gradient_norm == 2));
  CHECK((read.tokens == 384 && read.step_seconds == 0.5 && read.tokens_per_second == 256 && read.mfu == 0.25));
  CHECK((read.memory_bytes == 1003 && read.tensor_bytes == 500 && read.skipped == 2));
  REQUIRE(read.routing);
  CHECK((read.routing->balance_loss == 1.5 && read.routing->z_loss == 2.5 && read.routing->dropped_share == 0.25 &&
         read.routing->expert_load == 3 && read.routing->router_entropy == 0.5));
  CHECK((read.resumed_after == 2 && !metrics.training[1].resumed_after));
  CHECK(read.loss_scale == 1024);
  CHECK(read.saturated_share == 0.125);
  REQUIRE((read.terms.size() == 2 && metrics.evaluations[0].terms.size() == 2));
  CHECK((read.terms[0].name == "loss" && read.terms[0].value == 0.25));
  CHECK((read.terms[1].name == "auxiliary" && read.terms[1].value == 1.0 / 7));
  CHECK((metrics.evaluations[0].terms[0].value == 5.25 && std::isnan(metrics.evaluations[0].terms[1].value)));
  CHECK(metrics.training[1].terms.empty());
  CHECK(std::isnan(metrics.training[1].loss));
  CHECK_FALSE(metrics.training[1].routing);
}

TEST_CASE("figures of a run") {
  RunMetrics metrics;
  CHECK(std::isnan(figures_of(metrics).tokens_per_second));
  CHECK_FALSE(figures_of(metrics).last);
  for (const auto& [step, loss] :
       std::vector<std::pair<std::int64_t, double>>{{1, 5}, {2, 2}, {3, not_a_number}, {4, 3}})
    metrics.training.push_back(row_of(step, loss));
  metrics.training[1].tokens_per_second = 1000;
  metrics.training[2].tokens_per_second = 100;
  metrics.evaluations = {{0, 6}, {2, 1.5}, {4, 2.5}};
  const RunFigures figures = figures_of(metrics);
  CHECK((figures.steps == 4 && figures.tokens == 512 && figures.seconds == 2 && figures.memory_bytes == 1004));
  CHECK((figures.last->loss == 3 && figures.best->loss == 2 && figures.best->step == 2));
  CHECK((figures.last_validation->loss == 2.5 && figures.best_validation->step == 2));
  CHECK(figures.tokens_per_second == 256);
  CHECK(median({1, 4, 2, not_a_number, 3}) == 2.5);
  CHECK_FALSE(loss_at(metrics, 127));
  CHECK(loss_at(metrics, 256)->loss == 2);
  CHECK(loss_at(metrics, 300)->step == 2);
}

TEST_CASE("a live page shows the newest rows, those before a resume too, and how the run ended") {
  const TemporaryDirectory folder;
  const Recipe recipe = run_recipe(folder.path(), {"name=first", "training.steps=100"});
  {
    MetricsLog log(folder.path(), recipe.log, 0);
    log.write(row_of(1, 4.25));
    log.write(EvaluationRow{1, 4.5});
  }
  const fs::path page = folder.path() / "report.html";
  {
    LiveReport report(folder.path(), recipe, PlannedFigures{"cpu", 0.25, 512, 2048});
    CHECK_FALSE(fs::exists(page));
    report.add(row_of(2, 3.75));
    const std::string live = read_file(page);
    for (const char* part : {"http-equiv=\"refresh\"", "Running", "3.7500", "4.5000", "step 2 of 100", "plan.html",
                             "512 planned", "2.00 KiB planned"}) {
      INFO(part);
      CHECK(contains(live, part));
    }
    // A second row is too early for another write.
    report.add(row_of(3, 3.5));
    CHECK(read_file(page) == live);
    report.finish(RunState::finished);
    const std::string last = read_file(page);
    CHECK((contains(last, "Finished") && contains(last, "3.5000") && !contains(last, "http-equiv")));
  }
  CHECK(contains(read_file(page), "Finished"));
  {
    LiveReport report(folder.path(), recipe, std::nullopt);
    report.add(row_of(4, 3));
  }
  CHECK(contains(read_file(page), "Ended by an error"));
}

// The first row of `progress` has no terms, as where a run goes on with a term more.
RunProgress progress_of_terms() {
  RunProgress progress;
  progress.add(row_of(1, 4));
  TrainingRow row = row_of(2, 3);
  row.terms = {{"loss", 2.5}, {"<b>auxiliary", 0.5}};
  progress.add(row);
  progress.add(EvaluationRow{2, 3.5, {{"loss", 2.75}, {"<b>auxiliary", 0.75}}});
  return progress;
}

TEST_CASE("a page has the terms of a loss by name, where there are several") {
  const Recipe recipe = run_recipe("/runs/first");
  const std::string page = run_page(recipe, progress_of_terms(), std::nullopt, RunState::finished);
  for (const char* part : {"<h2>Loss</h2>", "<h2>Loss term “loss”</h2>", "<h2>Loss term “&lt;b&gt;auxiliary”</h2>",
                           "Without its coefficient; orange: validation", "0.5000", "validation 0.7500"}) {
    INFO(part);
    CHECK(contains(page, part));
  }
  CHECK_FALSE(contains(page, "<b>"));
  RunProgress one;
  one.add(row_of(1, 4));
  CHECK_FALSE(contains(run_page(recipe, one, std::nullopt, RunState::finished), "term"));
}

TEST_CASE("a page marks where a run went on from a checkpoint") {
  const Recipe recipe = run_recipe("/runs/first");
  RunProgress progress;
  for (std::int64_t step = 1; step <= 400; ++step) {
    TrainingRow row = row_of(step, 4);
    if (step > 1 && step % 2 == 1) row.resumed_after = step - 1;
    progress.add(row);
  }
  const std::string page = run_page(recipe, progress, std::nullopt, RunState::finished);
  CHECK(contains(page, "resumed after step 398"));
  // A hundred of them on each of six charts.
  CHECK_FALSE(contains(page, "resumed after step 198\""));
  CHECK(contains(page, "resumed after step 200\""));
  CHECK(page.size() < 400'000);
}

TEST_CASE("a page stays small and well formed however long the run is") {
  Recipe recipe = run_recipe("/runs/long");
  recipe.name = "<b>&";
  RunProgress progress;
  for (std::int64_t step = 1; step <= 200'000; ++step) {
    TrainingRow row = row_of(step, 6 - 1e-5 * static_cast<double>(step) + 0.5 * std::sin(static_cast<double>(step)));
    row.gradient_norm = 1 + std::cos(static_cast<double>(step));
    row.routing = RoutingRow{1.1 + 0.1 * std::sin(static_cast<double>(step)), 0, 0.01, 2, 0.5};
    row.loss_scale = 1024;
    row.saturated_share = 1e-4;
    progress.add(row);
    if (step % 100 == 0) progress.add(EvaluationRow{step, 5});
  }
  const std::string page = run_page(recipe, progress, PlannedFigures{"cpu", 0.25, 512, 2048}, RunState::running);
  CHECK(page.size() < 400'000);
  CHECK_FALSE(contains(page, "<b>&"));
  for (const char* title : {"Loss", "Learning rate", "Gradient norm", "Speed", "Memory", "Experts&#39; load",
                            "Dropped choices", "Loss scale", "Saturated gradients", "Recipe"})
    CHECK(contains(page, std::string("<h2>") + title + "</h2>"));
  for (const char* outside : {"http:", "https:", "src=", "@import", "nan"}) CHECK_FALSE(contains(page, outside));
}

TEST_CASE("Prometheus' text format") {
  Recipe recipe = run_recipe("/runs/first");
  recipe.name = "a\"b\\c";
  RunProgress progress;
  CHECK(prometheus_text(recipe, progress, RunState::running).empty());
  progress.add(row_of(7, not_a_number));
  const std::string text = prometheus_text(recipe, progress, RunState::running);
  for (const char* line :
       {"# HELP llmtrain_step Steps done.\n# TYPE llmtrain_step gauge\nllmtrain_step{run=\"a\\\"b\\\\c\"} 7\n",
        "# TYPE llmtrain_tokens_total counter\n", "llmtrain_loss{run=\"a\\\"b\\\\c\"} NaN\n",
        "llmtrain_running{run=\"a\\\"b\\\\c\"} 1\n"})
    CHECK(contains(text, line));
  CHECK(contains(prometheus_text(recipe, progress, RunState::finished), "llmtrain_running{run=\"a\\\"b\\\\c\"} 0\n"));
  CHECK_FALSE(contains(text, "term"));
}

TEST_CASE("Prometheus' text format has the terms of a loss under one heading") {
  const std::string text =
      prometheus_text(run_recipe("/runs/first", {"name=a"}), progress_of_terms(), RunState::running);
  for (const char* lines :
       {"# TYPE llmtrain_loss_term gauge\nllmtrain_loss_term{run=\"a\",term=\"loss\"} 2.5\n"
        "llmtrain_loss_term{run=\"a\",term=\"<b>auxiliary\"} 0.5\n",
        "# TYPE llmtrain_validation_loss_term gauge\nllmtrain_validation_loss_term{run=\"a\",term=\"loss\"} 2.75\n"
        "llmtrain_validation_loss_term{run=\"a\",term=\"<b>auxiliary\"} 0.75\n"})
    CHECK(contains(text, lines));
}

fs::path write_run(const TemporaryDirectory& folder, const std::string& name, const std::vector<Override>& overrides,
                   double loss) {
  const fs::path path = folder.path() / name;
  fs::create_directories(path);
  const Recipe recipe = run_recipe(path, overrides);
  write_file_atomically(path / "recipe.json", to_json(recipe).dump());
  MetricsLog log(path, {"", 1, false}, 0);
  for (std::int64_t step = 1; step <= recipe.training.steps; ++step)
    log.write(row_of(step, loss / static_cast<double>(step)));
  return path;
}

TEST_CASE("runs side by side") {
  const TemporaryDirectory folder;
  const fs::path first = write_run(folder, "first", {}, 5),
                 second = write_run(folder, "second", {"training.steps=20"}, 6),
                 third = write_run(folder, "third", {"seed=7"}, 7);
  const RunComparison comparison = compare_runs({first, second, third / ""});
  CHECK((comparison.runs[0].name == "first" && comparison.runs[2].name == "third"));
  CHECK(comparison.equal_tokens == 1280);
  REQUIRE(comparison.keys.size() == 3);
  CHECK((comparison.keys[0].key == "training.steps" && comparison.keys[0].values == std::vector<Json>{10, 20, 10}));
  CHECK((comparison.keys[2].key == "seed" && comparison.keys[2].values == std::vector<Json>{1234, 1234, 7}));
  const Json json = Json::parse(comparison_json(comparison));
  CHECK(json.at("runs").at(1).at("loss").at("at_equal_tokens") == 0.6);
  CHECK(json.at("runs").at(1).at("loss").at("last") == 0.3);
  const std::string text = comparison_text(comparison, {});
  CHECK(contains(text, "  at 1.3k tokens                      0.5000        0.6000        0.7000\n"));
  CHECK(contains(text, "  training.steps                          10            20            10\n"));
  CHECK(contains(text, "█"));
  // Runs that a page has no room for stand in another table.
  const std::string narrow = comparison_text(comparison, {TextColour::off, 60});
  CHECK(contains(narrow, "  at 1.3k tokens                      0.5000        0.6000\n"));
  CHECK(contains(narrow, "  at 1.3k tokens                      0.7000\n"));
  CHECK(contains(narrow, "  training.steps                          10\n"));
  std::istringstream lines(narrow);
  for (std::string line; std::getline(lines, line);) CHECK(columns(line) <= 60);
  const std::string page = comparison_page(comparison);
  for (const char* part : {"first, second, third", "data-name=\"second\"", "<code>seed</code>"})
    CHECK(contains(page, part));
  CHECK_THAT(test::error_of([&] {
               compare_runs({first, folder.path() / "none"});
             }),
             Catch::StartsWith("66 " + (folder.path() / "none").string() + ": contains no recipe.json"));
}

}  // namespace
}  // namespace llmtrain
