// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/report.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <sstream>

#include "parallel/plan/report/text_layout.h"
#include "tests/parallel/plan/report/sample_report.h"

namespace llmtrain {
namespace {

constexpr const char* golden =
    R"(gpt3-175b: 174.6B parameters on 1024 devices of a100-80gb, tensor 8 × data 8 × pipeline 16

Fits: the fullest rank needs 60.0 GiB of 80.0 GiB (75 %), 20.0 GiB free
  rank 0 and 63 like it, peak at Backward stage 0 micro 3

Memory of the fullest rank                      Step of 25.0s
  weights         2.50 GiB  ▋                   compute                   12.5s  50 %  ██████▌
  gradients       5.00 GiB  █▏                  recompute                 5.00s  20 %  ██▋
  master weights  5.00 GiB  █▏                  communication in passes   2.50s  10 %  █▎
  optimizer       10.0 GiB  ██▎                 bubble                    3.00s  12 %  █▌
  activations     32.0 GiB  ███████▎            exposed communication     1.00s   4 %  ▌
  buffers         4.00 GiB  ▉                   optimizer                 750ms   3 %  ▍
  communication   1.00 GiB  ▎                   overhead                  250ms   1 %  ▏
  framework       1.50 GiB  ▍

Speed   125.8k tokens/s, 10.9B tokens per day; MFU 42.5 %, HFU 56.1 %, 133 TFLOP/s per device
Bubble  7.2 % idle between the first and the last pass
Run     95367 steps, 300.0B tokens: 27d 14h, 678.2k device-hours
Sends   tensor parallel 300 GiB in 2.50s (none hidden); data parallel 8.75 GiB in 800ms (none
        hidden); pipeline 9.00 GiB in 600ms (200ms not hidden); by the busiest rank, per step
Error   step ± 5.2 %, from 12 published runs planned as nemo; memory ± 10 %, from 33 published runs
        of all programs

Warnings
  - /parallel/zero_stage: 0: every one of the 8 data-parallel ranks holds the same 15 GiB

Changes that make it faster
  --set memory.recompute=selective              21.5s per step (-14 %), 74.0 GiB, tight
  --set pipeline.loops=3                        24.0s per step (-4 %), 66.0 GiB
  --set parallel.zero_stage=1                   24.8s per step (-1 %), 49.0 GiB
)";

std::string without_escapes(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = text.find('m', i);
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// At all widths of terminals.
void check_widths(const PlanReport& report) {
  for (const std::size_t width : {60, 80, 100, 160}) {
    std::istringstream lines(report_text(report, {TextColour::off, width}));
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(columns(line) <= std::min<std::size_t>(width, 100));
    }
  }
}

TEST_CASE("the summary of a plan is unchanged") { CHECK(report_text(test::sample_report(), {}) == golden); }

TEST_CASE("colour does not change the text") {
  const std::string coloured = report_text(test::sample_report(), {TextColour::on});
  CHECK(coloured != golden);
  CHECK(without_escapes(coloured) == golden);
}

TEST_CASE("where both tables do not fit side by side, one is below the other") {
  const std::string text = report_text(test::sample_report(), {TextColour::off, 80});
  CHECK_THAT(text, Catch::Contains("  framework       1.50 GiB  ▍\n\nStep of 25.0s\ncompute                   12.5s"));
  // Figures begin in one column here, too.
  CHECK_THAT(text, Catch::Contains("  --set memory.recompute=selective  21.5s per step (-14 %), 74.0 GiB, tight\n"
                                   "  --set pipeline.loops=3            24.0s per step (-4 %), 66.0 GiB\n"));
}

TEST_CASE("a plan that does not fit states that first, and by how much") {
  PlanReport report = test::sample_report();
  report.fits = false;
  report.ranks[5].peak_bytes = 131.0 * (1U << 30U);
  report.suggestions.resize(1);
  report.suggestions[0] = {.change = "a=b", .step_seconds = 21.5, .peak_bytes = 74.0 * (1U << 30U), .fits = false};
  const std::string text = report_text(report, {});
  CHECK_THAT(text,
             Catch::Contains("\n\nDoes not fit: the fullest rank needs 131 GiB of 80.0 GiB, 51.0 GiB over the limit\n"
                             "  rank 320 and 63 like it, peak at Backward stage 5 micro 3\n"));
  CHECK_THAT(text, Catch::Contains("Changes that make it fit\n"));
  CHECK_THAT(text, Catch::EndsWith("74.0 GiB, does not fit\n"));
}

TEST_CASE("a plan near the limit is tight on both sides of it, and says by how much plans err") {
  PlanReport report = test::sample_report();
  for (const double gibibytes : {79.0, 82.0}) {
    report.ranks[0].peak_bytes = gibibytes * (1U << 30U);
    report.fits = gibibytes <= 80;
    const std::string text = report_text(report, {});
    CHECK_THAT(text, Catch::Contains("\nTight: the fullest rank needs ") &&
                         Catch::Contains(" plans of memory err by ± 10 %\n"));
    CHECK_THAT(text, !Catch::Contains("Fits:") && !Catch::Contains("Does not fit"));
  }
  report.accuracy = {};
  CHECK_THAT(report_text(report, {}), Catch::Contains("Does not fit:") && !Catch::Contains("Error  "));
}

TEST_CASE("one device, no limit, experts, host memory") {
  PlanReport report = test::sample_report();
  report.mesh = {};
  report.profile = "cpu";
  report.device_memory_bytes = 0;
  report.active_parameters = 40'000'000'000;
  report.ranks.resize(1);
  report.ranks[0].count = 1;
  report.ranks[0].host_bytes = 12.0 * (1U << 30U);
  report.warnings.clear();
  report.communication.clear();
  report.suggestions.clear();
  const std::string text = report_text(report, {});
  CHECK_THAT(text, Catch::StartsWith("gpt3-175b: 174.6B parameters (40.0B active) on 1 device of cpu\n"));
  CHECK_THAT(text, Catch::Contains("Memory: the fullest rank needs 60.0 GiB, the profile states no limit\n"
                                   "  rank 0, peak at Backward stage 0 micro 3, plus 12.0 GiB of host memory\n"));
  for (const char* word : {"Sends", "Warnings", "Changes"}) CHECK_THAT(text, !Catch::Contains(word));
}

TEST_CASE("parts that are rounding errors of sums, and small parts") {
  PlanReport report = test::sample_report();
  report.step.compute_seconds += 3 - 1e-9;  // all of the bubble
  report.step.optimizer_seconds = 0.01;
  report.step.seconds -= 0.74;
  const std::string text = report_text(report, {});
  CHECK_THAT(text, !Catch::Contains("  bubble"));
  CHECK_THAT(text, Catch::Contains("optimizer                10.0ms  <1 %"));
}

TEST_CASE("no control character of a recipe reaches the terminal") {
  PlanReport report = test::sample_report();
  report.recipe.name = "\x1b[2Jname";
  report.warnings = {"a\x07 bell"};
  report.suggestions[0].change = "log.directory=\x1b[31m";
  CHECK(report_text(report, {}).find_first_of("\x1b\x07") == std::string::npos);
}

TEST_CASE("no line is wider than the terminal, whatever the plan contains") {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> exponent(-9, 15);
  const auto any = [&] { return std::pow(10, exponent(random)); };
  const auto word = [&] { return std::string(random() % 160, 'x') + " é" + std::string(random() % 20, '='); };
  for (int round = 0; round < 200; ++round) {
    PlanReport report = test::sample_report();
    report.recipe.name = word();
    report.profile = word();
    report.fits = random() % 2 == 0;
    report.device_memory_bytes = any();
    report.mesh = {.tensor = 1 << random() % 12,
                   .context = 1 << random() % 12,
                   .data = 1 << random() % 12,
                   .pipeline = 1 << random() % 12,
                   .expert = 1 << random() % 12};
    for (double& bytes : report.ranks[0].bytes.bytes) bytes = any();
    report.ranks[0].peak_bytes = any();
    report.ranks[0].host_bytes = any();
    report.ranks[0].peak_instruction = word();
    report.step = {any(), any(), any(), any(), any(), any(), any(), any()};
    report.throughput = {any(), any(), any(), any(), any(), any(), any()};
    const PlannedGoodput goodput{any(), 12, 10, any(), any(), any()};
    report.run = {any(), any(), any(), any(), goodput, any()};
    report.warnings = {word(), word() + word()};
    for (auto& line : report.communication)
      line = {Collective::all_gather, Purpose::tensor_parallel, word(), 8, any(), any(), any()};
    for (auto& suggestion : report.suggestions) suggestion = {word(), any(), any(), random() % 2 == 0};
    check_widths(report);
  }
}

}  // namespace
}  // namespace llmtrain
