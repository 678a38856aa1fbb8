// SPDX-License-Identifier: Apache-2.0
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>

#include "core/json/json_text.h"
#include "parallel/plan/report/html/report_html.h"
#include "tests/parallel/plan/report/sample_plan.h"
#include "tests/support/hostile_text.h"

namespace llmtrain {
namespace {

using test::hostile_text;
using test::tags_of;

// A plan whose every text, whoever writes it, is `text`.
Plan plan_of(const std::string& text) {
  static const Plan sample =
      test::sample_plan({.kind = PipelineSchedule::breadth_first, .pipeline = 2, .micro_batches = 2, .reduces = true});
  Plan plan = sample;
  PlanReport& report = plan.report;
  report.recipe.name = report.recipe.description = report.recipe.cluster.currency = report.profile = text;
  report.recipe.cluster.profile = report.recipe.cluster.program = text;
  report.recipe.log.directory = text;
  report.run.price = 2;
  report.run.currency = text;
  report.warnings = {text};
  report.suggestions = {{.change = text, .step_seconds = 1, .peak_bytes = 1, .fits = true}};
  report.accuracy.step = report.accuracy.memory = PlanError{.error = 0.25, .rows = 12, .program = text};
  for (PlannedRank& rank : report.ranks) rank.peak_instruction = text;
  for (CommunicationEntry& entry : report.communication) entry.tensors = text;
  StageWork& work = report.work;
  work.kind_of.assign(2, 0);
  work.kinds.resize(1);
  work.kinds[0].forward = {{.name = text, .seconds = 1, .shape = text, .source = text}};
  work.sources = {{text, text}};
  return plan;
}

TEST_CASE("no text makes an element of a plan's page", "[property]") {
  const auto harmless = tags_of(report_html(plan_of("x")));
  CHECK(harmless.size() > 300);
  rc::prop("the page has the same elements", [&](std::uint64_t seed) {
    const std::string page = report_html(plan_of(hostile_text(seed)));
    RC_ASSERT(tags_of(page) == harmless);
    const std::size_t from = page.find("id=\"timeline-data\">") + 19;
    RC_ASSERT(parse_json(std::string_view(page).substr(from, page.find("</script>", from) - from)).error == "");
  });
}

Sweep sweep_of(const std::string& text) {
  Sweep sweep{.name = text, .axes = {{text, {"1" + text, "2" + text}}, {"b" + text, {text}}}, .points = {}};
  sweep.points.push_back({{"1" + text, text}, plan_of(text).report, ""});
  sweep.points.push_back({{"2" + text, text}, std::nullopt, text});
  return sweep;
}

TEST_CASE("no text makes an element of a sweep's page", "[property]") {
  const auto harmless = tags_of(sweep_html(sweep_of("x")));
  CHECK(harmless.size() > 50);
  rc::prop("the page has the same elements",
           [&](std::uint64_t seed) { RC_ASSERT(tags_of(sweep_html(sweep_of(hostile_text(seed)))) == harmless); });
}

}  // namespace
}  // namespace llmtrain
