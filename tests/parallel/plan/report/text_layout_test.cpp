// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/text_layout.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "parallel/plan/report/plan.h"
#include "tests/parallel/plan/report/sample_report.h"

namespace llmtrain {
namespace {

TEST_CASE("a code point is one column wide") {
  CHECK(columns("") == 0);
  CHECK(columns("abc") == 3);
  CHECK(columns("é…█") == 3);
}

TEST_CASE("text is truncated and padded by columns, not by bytes") {
  CHECK(clipped("höhe", 4) == "höhe");
  CHECK(clipped("höhen", 4) == "höh…");
  CHECK(clipped("höhen", 0).empty());
  CHECK(left_aligned("é", 3) == "é  ");
  CHECK(right_aligned("é", 3) == "  é");
  CHECK(right_aligned("abcd", 3) == "ab…");
}

TEST_CASE("a bar has eighths, and shows small values") {
  CHECK(bar(0, 4).empty());
  CHECK(bar(-1, 4).empty());
  CHECK(bar(std::nan(""), 4).empty());
  CHECK(bar(1e-9, 4) == "▏");
  CHECK(bar(0.5, 4) == "██");
  CHECK(bar(0.53125, 4) == "██▏");
  CHECK(bar(1, 4) == "████");
  CHECK(bar(7, 4) == "████");
}

TEST_CASE("a term's text stands beside it, or below where the term is long, in a column of its own") {
  CHECK(described("  -q", "", 8, 20) == "  -q\n");
  CHECK(described("  -q", "Shows errors only", 8, 20) == "  -q    Shows errors\n        only\n");
  CHECK(described("  --quiet", "Shows errors", 8, 20) == "  --quiet\n        Shows errors\n");
  CHECK(described("", "Shows errors only", 4, 20) == "    Shows errors\n    only\n");
  CHECK(described("  a long term of words", "text", 8, 12) == "  a long\n  term of\n  words\n        text\n");
}

TEST_CASE("a change below what its digits show has no sign") {
  CHECK(change_text(0.996, 0) == "±0 %");
  CHECK(change_text(1.004, 0) == "±0 %");
  CHECK(change_text(1.006, 0) == "+1 %");
  CHECK(change_text(0.9, 0) == "-10 %");
  CHECK(change_text(0.996, 1) == "-0.4 %");
  CHECK(change_text(1.0004, 1) == "±0 %");
}

TEST_CASE("expected failures are a number that means something") {
  CHECK(failures_text(0.000757) == "fewer than 0.1 failures");
  CHECK(failures_text(0.42) == "0.42 failures");
  CHECK(failures_text(12.3) == "12 failures");
  CHECK(failures_text(1.01) == "1 failure");
  CHECK(failures_text(123) == "123 failures");
}

TEST_CASE("lines break at spaces, and within words if necessary") {
  CHECK(wrapped("", 5).empty());
  CHECK(wrapped("  one  two\nthree ", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(wrapped("éééé éé", 4) == std::vector<std::string>{"éééé", "éé"});
  CHECK(wrapped("a bcdefgh i", 3) == std::vector<std::string>{"a", "bcd", "efg", "h i"});
}

TEST_CASE("the parts of a step sum to its time") {
  const auto parts = split_step(test::sample_report().step);
  const double expected[] = {12.5, 5, 2.5, 3, 1, 0.75, 0.25};
  double sum = 0;
  for (std::size_t i = 0; i < step_parts; ++i) {
    CHECK(parts[i].part == static_cast<StepPart>(i));
    CHECK(parts[i].seconds == Approx(expected[i]));
    sum += parts[i].seconds;
  }
  CHECK(sum == Approx(25));
}

TEST_CASE("a step whose parts fill it has no bubble") {
  PlannedStep step{.seconds = 10, .compute_seconds = 9, .optimizer_seconds = 1.1};
  CHECK(split_step(step)[static_cast<std::size_t>(StepPart::bubble)].seconds == 0);
}

TEST_CASE("the mesh of experts is shown where it differs from the tensor ranks") {
  PlanReport report = test::sample_report();
  report.mesh = {.tensor = 4, .data = 16, .expert_tensor = 4};
  CHECK(expert_mesh_text(report).empty());
  report.recipe.model.moe.emplace();
  CHECK(expert_mesh_text(report).empty());
  report.mesh.expert = 8;
  report.mesh.expert_tensor = 1;
  CHECK(expert_mesh_text(report) == ", experts: expert 8 × copies 8");
  report.mesh.expert_tensor = 2;
  report.mesh.expert_joined = 2;
  CHECK(expert_mesh_text(report) == ", experts: expert 8 × expert_tensor 2 × joined slices 2 × copies 2");
  report.mesh.switches_experts = true;
  CHECK(expert_mesh_text(report) ==
        ", experts: expert 8 × expert_tensor 2 × joined slices 2 × copies 2, the cheapest of the splits that a run "
        "tries");
}

}  // namespace
}  // namespace llmtrain
