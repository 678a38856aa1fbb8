// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/report_html.h"

#include <utility>

#include "parallel/plan/report/html/page_sections.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {
namespace {

// The pattern that marks the omitted middle of a step in the timeline.
constexpr MarkupLiteral hatch =
    "<svg class=\"definitions\" width=\"0\" height=\"0\" style=\"position:absolute;min-width:0;width:0\" "
    "aria-hidden=\"true\"><defs><pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
    "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" style=\"fill:var(--page)\"/>"
    "<rect width=\"2.5\" height=\"6\" style=\"fill:var(--hatch)\"/></pattern></defs></svg>\n";

Html drawings(const Plan& plan) {
  if (plan.simulation.timeline.empty()) return {};
  const auto fullest = static_cast<std::int32_t>(fullest_rank(plan.report).pipeline_rank);
  const TimelineSelection selection = select_timeline(plan.simulation, fullest);
  const TimeAxis axis(plan.simulation.step_seconds, plot_width, selection.cut);
  // Memory is drawn for the whole step: its peak may be in the part that the timeline omits.
  const TimeAxis whole_step(plan.simulation.step_seconds, plot_width, std::nullopt);
  return hatch +
         timeline_section(
             plan, selection, axis, "Schedule",
             "One step of each pipeline rank: passes with their micro-batch number, below them gathers and "
             "reductions of the data-parallel ranks, sends and receives, and how busy the rank's wires are. Point at a "
             "block to see what its time consists of.") +
         memory_section(plan, selection, whole_step);
}

}  // namespace

std::string plan_page(const std::string& title, const Html& sections) {
  return html_page({.title = title,
                    .sections = sections,
                    .footer = "Predicted by llmtrain plan from the recipe alone; nothing was run.",
                    .scripts = {page_script}});
}

Html measured_step_section(std::shared_ptr<const Layout> layout, std::vector<TimelineEntry> timeline, double seconds) {
  if (timeline.empty() || !(seconds > 0)) return {};
  Plan plan;
  plan.layout = std::move(layout);
  plan.simulation.step_seconds = seconds;
  plan.simulation.ranks.resize(plan.layout->schedule().ranks.size());
  plan.simulation.timeline = std::move(timeline);
  const TimelineSelection selection = select_timeline(plan.simulation, 0);
  return hatch +
         timeline_section(plan, selection, TimeAxis(seconds, plot_width, selection.cut), "The last step",
                          "As it was measured on one rank of each pipeline rank: passes with their micro-batch "
                          "number, below them gathers, reductions, sends and receives, each as long as the rank "
                          "itself spent in it.");
}

MarkupLiteral measured_step_script() { return page_script; }

std::string report_html(const Plan& plan) {
  const PlanReport& report = plan.report;
  return plan_page("Plan of " + report.recipe.name, headline_section(report) + advice_section(report) +
                                                        step_section(report) + drawings(plan) + rank_section(report) +
                                                        communication_section(report) + sources_section(report.work) +
                                                        recipe_section(report));
}

}  // namespace llmtrain
