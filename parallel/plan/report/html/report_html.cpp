// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/report_html.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/printable.h"
#include "parallel/plan/report/html/page_sections.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {
namespace {

struct Escape {
  char letter = 0;
  std::string_view text;
};
constexpr std::array<Escape, 5> escapes{
    {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}}};

// The pattern that marks the omitted middle of a step in the timeline.
constexpr const char* hatch =
    "<svg class=\"definitions\" width=\"0\" height=\"0\" style=\"position:absolute;min-width:0;width:0\" "
    "aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
    "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" style=\"fill:var(--page)\"/>"
    "<rect width=\"2.5\" height=\"6\" style=\"fill:var(--hatch)\"/></pattern></defs></svg>\n";

std::string drawings(const Plan& plan) {
  if (plan.simulation.timeline.empty()) return "";
  const auto fullest = static_cast<std::int32_t>(fullest_rank(plan.report).pipeline_rank);
  const TimelineSelection selection = select_timeline(plan.simulation, fullest);
  const TimeAxis axis(plan.simulation.step_seconds, plot_width, selection.cut);
  // Memory is drawn for the whole step: its peak may be in the part that the timeline omits.
  const TimeAxis whole_step(plan.simulation.step_seconds, plot_width, std::nullopt);
  return hatch + timeline_section(plan, selection, axis) + memory_section(plan, selection, whole_step);
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string escaped;
  // Names and descriptions come from recipes that may be somebody else's: markup in them must not take effect.
  for (const char letter : printable(text)) {
    const auto escape = std::ranges::find(escapes, letter, &Escape::letter);
    escaped += escape == escapes.end() ? std::string_view(&letter, 1) : escape->text;
  }
  return escaped;
}

std::string svg_number(double value) {
  // Hundredths of a pixel are invisible, and every digit counts in a page with thousands of coordinates.
  const auto hundredths = std::llround(value * 100);
  if (hundredths % 100 == 0) return std::to_string(hundredths / 100);
  std::string text = fmt::format("{:.2f}", static_cast<double>(hundredths) / 100);
  if (text.back() == '0') text.pop_back();
  return text;
}

std::string html_page(std::string_view title, const std::string& sections) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{}</title>\n<style>{}"
      "</style></head>\n<body>\n{}"
      "<footer>Predicted by llmtrain plan from the recipe alone; nothing was run.</footer>\n"
      "<div id=\"tip\" role=\"status\" hidden></div>\n<script>{}</script>\n</body></html>\n",
      html_text(title), page_style, sections, page_script);
}

std::string report_html(const Plan& plan) {
  const PlanReport& report = plan.report;
  return html_page("Plan of " + report.recipe.name, headline_section(report) + advice_section(report) +
                                                        step_section(report) + drawings(plan) + rank_section(report) +
                                                        communication_section(report) + recipe_section(report));
}

}  // namespace llmtrain
