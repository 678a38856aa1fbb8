// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/report_html.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "core/json/json_text.h"
#include "parallel/plan/report/html/drawn_step.h"
#include "parallel/plan/report/html/page_sections.h"
#include "tests/parallel/plan/report/sample_plan.h"

namespace llmtrain {
namespace {

using test::looped;

// 64 ranks, 512 micro-batches, 4 stages each: 786,000 instructions that take time.
const ScheduleShape huge{.kind = PipelineSchedule::interleaved,
                         .pipeline = 64,
                         .loops = 4,
                         .micro_batches = 512,
                         .zero_stage = 1,
                         .reduces = true};

std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

// Why the tags of a page do not nest, or empty. Scripts and style sheets are not markup.
std::string nesting_error(const std::string& page) {
  const std::set<std::string> empty_elements = {"meta", "br", "!DOCTYPE"};
  std::vector<std::string> open;
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at + 1)) {
    const std::size_t end = page.find('>', at);
    if (end == std::string::npos) return "a tag without its end";
    std::string tag = page.substr(at + 1, end - at - 1);
    const bool closes = tag.front() == '/', is_whole = tag.back() == '/';
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "quotes of <" + tag;
    const std::string name = tag.substr(closes ? 1 : 0, tag.find_first_of(" /", 1) - (closes ? 1 : 0));
    if (closes) {
      if (open.empty() || open.back() != name) return "</" + name + "> at " + std::to_string(at);
      open.pop_back();
    } else if (!is_whole && empty_elements.count(name) == 0) {
      open.push_back(name);
    }
    if (!closes && (name == "script" || name == "style")) at = page.find("</" + name, end) - 1;
  }
  return open.empty() ? "" : "<" + open.back() + "> is open";
}

Json embedded(const std::string& page, const std::string& id) {
  const std::string start = "id=\"" + id + "\">";
  const std::size_t from = page.find(start) + start.size();
  const JsonText text = parse_json(std::string_view(page).substr(from, page.find("</script>", from) - from));
  REQUIRE(text.error.empty());
  return text.value;
}

TEST_CASE("the check for nesting finds errors") {
  CHECK(nesting_error("<p><b>x</b></p>").empty());
  CHECK_FALSE(nesting_error("<p><b>x</p></b>").empty());
  CHECK_FALSE(nesting_error("<p>").empty());
  CHECK_FALSE(nesting_error("<p class=\"a>x</p>").empty());
}

TEST_CASE("a page is well formed, self-contained and complete") {
  const std::string page = report_html(test::sample_plan(looped));
  CHECK(nesting_error(page) == "");
  for (const char* outside : {"http:", "https:", "src=", "href=", "@import", "url(//"})
    CHECK(count(page, outside) == 0);
  for (const char* title : {"Warnings", "Where the time goes", "Schedule", "Memory over time", "Memory per rank",
                            "Communication", "Recipe"})
    CHECK(count(page, std::string("<h2>") + title) == 1);
  CHECK(count(page, "device limit: 10.0 GiB") == 1);
  CHECK(count(page, "gpt3-175b") >= 3);
  CHECK(page.find("nan") == std::string::npos);
  CHECK(page.find("inf") == std::string::npos);
}

TEST_CASE("a page shows the errors of plans as a bar, a band and a verdict") {
  Plan plan = test::sample_plan(looped);
  plan.report.accuracy = {};
  const std::string without = report_html(plan);
  for (const char* part : {"class=\"error-bar\"", "<rect class=\"tight\"", "verdict tight"})
    CHECK(count(without, part) == 0);
  plan.report.accuracy.step = PlanError{.error = 0.25, .rows = 12, .program = "<nemo>"};
  plan.report.accuracy.memory = PlanError{.error = 0.9, .rows = 33, .program = ""};
  const std::string page = report_html(plan);
  CHECK(nesting_error(page) == "");
  // The bar ends at 1.25 times the step: the error is from 0.75 to 1.25.
  CHECK(count(page, "class=\"error-bar\" style=\"margin-left:60.000%;width:40.000%\"") == 1);
  CHECK(count(page, "class=\"split\" style=\"width:80.000%\"") == 1);
  CHECK(count(page, "planned as &lt;nemo&gt;") == 1);
  CHECK(count(page, "<rect class=\"tight\"") >= 1);
  CHECK(count(page, "verdict tight") == 1);
}

TEST_CASE("a page shows what ranks have on the host and on a disk, where any has") {
  Plan plan = test::sample_plan(looped);
  for (const char* title : {"<th>host</th>", "<th>disk</th>"}) CHECK(count(report_html(plan), title) == 0);
  plan.report.ranks[0].host_bytes = 3.0 * (1U << 30U);
  plan.report.ranks[0].disk_bytes = 7.0 * (1U << 30U);
  plan.report.ranks[0].disk_traffic = 14.0 * (1U << 30U);
  plan.report.ranks[0].disk_seconds = 9.5;
  const std::string page = report_html(plan);
  CHECK(nesting_error(page) == "");
  for (const char* part : {"<th>host</th>", "<th>disk</th>", "3.00 GiB", "7.00 GiB", "14.0 GiB in 9.50s"}) {
    INFO(part);
    CHECK(count(page, part) == 1);
  }
}

TEST_CASE("text from recipes and messages is escaped") {
  Plan plan = test::sample_plan(looped);
  plan.report.recipe.name = "<script>alert('a')</script>";
  plan.report.recipe.description = "a & b \"c\"";
  plan.report.profile = "<profile>";
  plan.report.warnings = {"</ul><img>", "\x01"};
  plan.report.suggestions = {{.change = "a=<b>", .step_seconds = 1, .peak_bytes = 1, .fits = true}};
  plan.report.ranks[0].peak_instruction = "<i>";
  plan.report.communication[0].tensors = "<td>";
  const std::string page = report_html(plan);
  CHECK(nesting_error(page) == "");
  CHECK(count(page, "alert(&#39;a&#39;)") == 3);
  CHECK(count(page, "alert('a')") == 0);
  CHECK(count(page, "a &amp; b &quot;c&quot;") == 1);
  for (const char* text : {"&lt;profile&gt;", "&lt;/ul&gt;&lt;img&gt;", "a=&lt;b&gt;", "&lt;td&gt;"})
    CHECK(count(page, text) == 1);
  CHECK(page.find('\x01') == std::string::npos);
}

TEST_CASE("the script knows every instruction that is drawn") {
  const Plan plan = test::sample_plan(looped);
  const std::string page = report_html(plan);
  const Json data = embedded(page, "timeline-data");
  std::size_t values = 0;
  for (const Json& row : data.at("rows")) values += row.at(2).size();
  CHECK(values == 8 * plan.simulation.timeline.size());
  CHECK(data.at("rows").size() == 4);
  const TimelineEntry& first = plan.simulation.timeline[0];
  const Instruction& instruction =
      plan.layout->schedule().ranks[0].instructions[static_cast<std::size_t>(first.instruction)];
  CHECK(data.at("rows").at(0).at(2).at(0) == static_cast<int>(instruction.operation));
  CHECK(data.at("rows").at(0).at(2).at(1) == instruction.stage);
  CHECK(data.at("tick").get<double>() * 1e6 == Approx(plan.simulation.step_seconds));
  // Each box occurs once, and each pass with enough room shows its micro-batch.
  const std::size_t from = page.find("class=\"stretch\"");
  const std::string boxes = page.substr(from, page.find("class=\"found\"", from) - from);
  CHECK(count(boxes, "z") == plan.simulation.timeline.size());
  CHECK(count(page, "class=\"on-light\"") == 4 * 2 * 8);
  CHECK(count(page, "class=\"on-dark\"") == 4 * 2 * 8);
}

TEST_CASE("passes without room for their micro-batch are labelled by the script, and only there") {
  const Plan plan = test::sample_plan(huge);
  const std::string page = report_html(plan);
  // Thousands of numbers that are hidden at every zoom but the largest would be half of the page.
  CHECK(count(page, "<text class=\"on-") < 200);
  CHECK(embedded(page, "timeline-data").at("digit").get<double>() > 0);
  CHECK(count(page, "const draw_labels = ") == 1);
}

TEST_CASE("the script knows what the instructions of each stage consist of") {
  Plan plan = test::sample_plan(looped);
  const auto stages = static_cast<std::size_t>(looped.stages());
  CHECK(embedded(report_html(plan), "timeline-data").at("work").at("kinds").empty());
  StageWork& work = plan.report.work;
  work.kind_of.assign(stages, 0);
  work.kinds.resize(1);
  work.sources = {{"matrix", "measured </script> here"}, {"memory", "not used"}};
  for (int i = 0; i < 12; ++i)
    work.kinds[0].forward.push_back({.name = "product " + std::to_string(i),
                                     .count = 3,
                                     .seconds = 0.002,
                                     .shape = "8 × 16 × 32",
                                     .amount = 8.2e9,
                                     .unit = PricedWork::Unit::flops,
                                     .peak = 989.5e12,
                                     .efficiency = 0.625,
                                     .source = "matrix"});
  const std::string page = report_html(plan);
  CHECK(nesting_error(page) == "");
  CHECK(count(page, "measured </script>") == 0);
  const Json data = embedded(page, "timeline-data").at("work");
  CHECK(data.at("of").size() == stages);
  const auto text = data.at("kinds").at(0).at(0).get<std::string>();
  CHECK_THAT(text, Catch::Contains("2.00ms  3 × product 0, 8 × 16 × 32: 8.2 GFLOP, 62.5 % of 990 TFLOP/s (matrix)\n"));
  // The seven first, and the others together.
  CHECK_THAT(text, Catch::Contains("product 6") && !Catch::Contains("product 7") && Catch::Contains("10.0ms  5 more"));
  CHECK_THAT(text, Catch::Contains("matrix: measured </script> here") && !Catch::Contains("not used"));
  CHECK(data.at("kinds").at(0).at(1) == "");
  // In full, as the text beside the pointer is clipped.
  CHECK(count(page, "measured &lt;/script&gt; here") == 1);
}

TEST_CASE("the times of the whole step are where the script draws those of another zoom") {
  const Plan plan = test::sample_plan(looped);
  const std::string page = report_html(plan);
  const std::size_t from = page.find("<g class=\"ticks\">");
  REQUIRE(from != std::string::npos);
  const std::string drawn = page.substr(from, page.find("</g>", from) - from);
  const double width = embedded(page, "timeline-data").at("width").get<double>();
  const auto ticks = TimeAxis(plan.simulation.step_seconds, width, std::nullopt).ticks();
  REQUIRE(ticks.size() > 2);
  CHECK(count(drawn, "<text class=\"tick\"") == ticks.size());
  for (const TimeTick& tick : ticks) CHECK(count(drawn, ">" + tick.label + "<") == 1);
  CHECK(count(page, "querySelector(\".ticks\")") == 1);
}

TEST_CASE("the script knows the peak of the fullest rank") {
  const Plan plan = test::sample_plan(looped);
  const Json data = embedded(report_html(plan), "memory-data");
  double peak = 0, fullest = 0;
  for (const Json& column : data.at("columns")) {
    REQUIRE(column.size() == 1 + memory_categories);
    double sum = 0;
    for (std::size_t i = 1; i < column.size(); ++i) sum += column.at(i).get<double>();
    peak = std::max(peak, sum);
  }
  for (const RankSimulation& rank : plan.simulation.ranks) fullest = std::max(fullest, rank.peak_bytes);
  CHECK(peak == Approx(fullest / (1024.0 * 1024)).epsilon(1e-3));
}

TEST_CASE("a huge plan is a page below 2 MB that states what it leaves out") {
  const Plan plan = test::sample_plan(huge);
  const std::string page = report_html(plan);
  CHECK(page.size() < 2'000'000);
  CHECK(nesting_error(page) == "");
  CHECK(count(page, "16 of 64 pipeline ranks are shown") == 1);
  CHECK(count(page, "of their 194704 instructions and is left out") == 1);
  CHECK(count(page, "<figure>") == 16);
  CHECK(count(page, "class=\"cut\"") == 1);
}

TEST_CASE("without a timeline a page has the rest") {
  Plan plan = test::sample_plan(looped);
  plan.simulation.timeline.clear();
  for (RankSimulation& rank : plan.simulation.ranks) rank.memory.clear();
  const std::string page = report_html(plan);
  CHECK(nesting_error(page) == "");
  CHECK(count(page, "<h2>Schedule") == 0);
  CHECK(count(page, "<h2>Memory over time") == 0);
  CHECK(count(page, "<h2>Memory per rank") == 1);
}

TEST_CASE("one rank, no limit of memory, no data-parallel ranks") {
  Plan plan = test::sample_plan({.kind = PipelineSchedule::breadth_first, .loops = 1, .micro_batches = 1});
  plan.report.device_memory_bytes = 0;
  const std::string page = report_html(plan);
  CHECK(nesting_error(page) == "");
  CHECK(count(page, "Memory limit unknown") == 1);
  CHECK(count(page, "class=\"limit\"") == 0);
  CHECK(count(page, "gather weights") == 0);
  CHECK(count(page, "<figure>") == 0);
}

TEST_CASE("a limit far above what is used does not flatten the chart") {
  Plan plan = test::sample_plan(looped);
  plan.report.device_memory_bytes = 1e12;
  const std::string page = report_html(plan);
  CHECK(count(page, "class=\"limit\"") == 0);
  CHECK(count(page, "the device&#39;s limit of 931 GiB is far above") +
            count(page, "the device's limit of 931 GiB is far above") ==
        1);
}

TEST_CASE("numbers in a drawing are short") {
  CHECK(svg_number(3) == "3");
  CHECK(svg_number(0.1 + 0.2) == "0.3");
  CHECK(svg_number(-1.005) == "-1");
  CHECK(svg_number(12.345678) == "12.35");
  CHECK(svg_number(1e-9) == "0");
}

}  // namespace
}  // namespace llmtrain
