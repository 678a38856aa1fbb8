// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/page_sections.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "core/base/units.h"
#include "core/recipe/recipe_io.h"
#include "parallel/plan/report/text_layout.h"

namespace llmtrain {
namespace {

// Bounds the size of the page.
constexpr std::size_t most_rows = 128;

Html verdict(const PlanReport& report) {
  const double peak = fullest_rank(report).peak_bytes;
  const double limit = report.device_memory_bytes;
  if (limit <= 0) return Html("<p class=\"verdict\">Memory limit unknown</p>");
  if (verdict_of(report) == MemoryVerdict::tight)
    return html("<p class=\"verdict tight\">Tight, {} {}</p>", bytes_text(std::abs(limit - peak)),
                report.fits ? "free" : "over the limit");
  if (report.fits) return html("<p class=\"verdict good\">Fits, {} free</p>", bytes_text(limit - peak));
  return html("<p class=\"verdict bad\">Does not fit, {} over the limit</p>", bytes_text(std::max(0.0, peak - limit)));
}

std::string mesh_text(const PlanReport& report) {
  const Mesh& mesh = report.mesh;
  return fmt::format("{} × {}: tensor {}, context {}, data {}, pipeline {}{}", mesh.world(), report.profile,
                     mesh.tensor, mesh.context, mesh.data, mesh.pipeline, expert_mesh_text(report));
}

// What stands before the rest of a figure's note.
std::string margin(const std::optional<PlanError>& error) { return error ? margin_text(*error) + ", " : ""; }

// A bar of the lengths that the error leaves open, on the scale of the step's own bar.
Html error_bar(const PlanError& error) {
  const double least = 1 - error.error, whole = 1 + error.error;
  return html(
      "<div class=\"error-bar\" style=\"margin-left:{:.3f}%;width:{:.3f}%\" title=\"{}\"></div><p class=\"note\">"
      "Plans of a step's time err by {} (root mean square), {}.</p>",
      100 * least / whole, 100 * (whole - least) / whole, margin_text(error), margin_text(error), origin_text(error));
}

bool uses_host(const PlanReport& report) {
  return std::ranges::any_of(report.ranks, [](const PlannedRank& rank) { return rank.host_bytes > 0; });
}

bool uses_disk(const PlanReport& report) {
  return std::ranges::any_of(report.ranks, [](const PlannedRank& rank) { return rank.disk_bytes > 0; });
}

std::vector<Html> rank_cells(const PlanReport& report, const PlannedRank& rank) {
  const double limit = report.device_memory_bytes;
  Html peak = html("{}", bytes_text(rank.peak_bytes));
  if (limit > 0)
    peak += html("<span class=\"meter{}\"><i style=\"width:{:.1f}%\"></i></span>",
                 rank.peak_bytes > limit ? " over" : "", std::min(100.0, 100 * rank.peak_bytes / limit));
  std::vector<Html> cells = {html("{}", rank.pipeline_rank), html("{}", rank.rank), html("{}", rank.count), peak};
  for (const MemoryName& name : memory_names)
    cells.push_back(html("{}", rank.bytes[name.category] > 0 ? bytes_text(rank.bytes[name.category]) : "–"));
  if (uses_host(report)) cells.push_back(html("{}", bytes_text(rank.host_bytes)));
  if (uses_disk(report)) {
    cells.push_back(html("{}", bytes_text(rank.disk_bytes)));
    cells.push_back(html("{} in {}", bytes_text(rank.disk_traffic), duration_text(rank.disk_seconds)));
  }
  cells.push_back(html("{}", rank.peak_instruction));
  return cells;
}

}  // namespace

Html headline_section(const PlanReport& report) {
  const PlannedRank& rank = fullest_rank(report);
  const PlannedThroughput& speed = report.throughput;
  std::string parameters = format_count(static_cast<double>(report.total_parameters)) + " parameters";
  if (report.active_parameters != report.total_parameters)
    parameters += fmt::format(", {} of them active", format_count(static_cast<double>(report.active_parameters)));
  Html text = html("<header><div><h1>{}</h1><p>{}<br>{}</p></div>{}</header>\n", report.recipe.name, parameters,
                   mesh_text(report), verdict(report));
  if (report.derives_data) text += html("<p class=\"note\">Data ranks: {}</p>\n", derived_data_text(report));
  if (!report.recipe.description.empty()) text += html("<p class=\"note\">{}</p>\n", report.recipe.description);
  const std::string of_limit =
      report.device_memory_bytes > 0 ? "of " + bytes_text(report.device_memory_bytes) + " on" : "on";
  text += "<div class=\"cards\">";
  text += html_card("Step", duration_text(report.step.seconds),
                    fmt::format("{}{} sequences", margin(report.accuracy.step), report.recipe.batch.global));
  text += html_card("Memory", bytes_text(rank.peak_bytes),
                    fmt::format("{}{} pipeline rank {}", margin(report.accuracy.memory), of_limit, rank.pipeline_rank));
  text += html_card("Speed", format_count(speed.tokens_per_second),
                    fmt::format("tokens/s, {} per day", format_count(speed.tokens_per_second * 86400)));
  text +=
      html_card("MFU", percent(speed.mfu),
                fmt::format("HFU {}, {} per device", percent(speed.hfu), tflops_text(speed.model_tflops_per_device)));
  text += html_card("Bubble", percent(report.step.bubble_fraction), "idle between the first and the last pass");
  text += html_card("Run", duration_text(report.run.seconds),
                    fmt::format("{}, {} tokens", cost_text(report.run), format_count(report.run.tokens)));
  return text + "</div>\n";
}

Html step_section(const PlanReport& report) {
  Html bar, list;
  for (const StepShare& share : split_step(report.step)) {
    if (share.seconds < negligible_share * report.step.seconds) continue;
    const double fraction = share.seconds / report.step.seconds;
    const int part = static_cast<int>(share.part);
    bar += html("<i class=\"p{}\" style=\"width:{:.3f}%\" title=\"{}: {}\"></i>", part, 100 * fraction, share.label,
                duration_text(share.seconds));
    list += html("<div><i class=\"p{}\"></i><span>{}</span><b>{}</b><span>{}</span></div>", part, share.label,
                 duration_text(share.seconds), percent(fraction));
  }
  const auto& error = report.accuracy.step;
  // With an error bar the step ends before the right edge, so that the longest step within the error ends there.
  const double width = error ? 100 / (1 + error->error) : 100;
  return html(
      "<section><h2>Where the time goes</h2><p class=\"note\">One step ({}) of the busiest rank.</p>"
      "<div class=\"split\" style=\"width:{:.3f}%\">{}</div>{}<div class=\"shares\">{}</div></section>\n",
      duration_text(report.step.seconds), width, bar, error ? error_bar(*error) : Html(), list);
}

Html advice_section(const PlanReport& report) {
  Html text;
  if (!report.warnings.empty()) {
    text += "<section class=\"warnings\"><h2>Warnings</h2><ul>";
    for (const std::string& warning : report.warnings) text += html("<li>{}</li>", warning);
    text += "</ul></section>\n";
  }
  if (!report.limits.empty()) {
    std::vector<std::vector<Html>> points;
    for (const LimitPoint& point : report.limits)
      points.push_back(text_cells({bytes_text(point.peak_bytes), duration_text(point.step_seconds),
                                   change_text(point.step_seconds / report.step.seconds, 1)}));
    text += html("<section><h2>Memory limits</h2>{}</section>\n",
                 html_table(1, text_cells({"fullest rank", "step", "vs. this recipe"}), points));
  }
  if (report.suggestions.empty()) return text;
  std::vector<std::vector<Html>> rows;
  for (const PlanSuggestion& suggestion : report.suggestions) {
    std::vector<Html> cells =
        text_cells({suggestion.is_tight ? "tight"
                    : suggestion.fits   ? "fits"
                                        : "does not fit",
                    duration_text(suggestion.step_seconds),
                    change_text(suggestion.step_seconds / report.step.seconds, 1), bytes_text(suggestion.peak_bytes)});
    cells.insert(cells.begin(), html("<code>--set {}</code>", suggestion.change));
    rows.push_back(std::move(cells));
  }
  return text + html("<section><h2>{}</h2>{}</section>\n",
                     report.fits ? "Changes that make it faster" : "Changes that make it fit",
                     html_table(2, text_cells({"change", "", "step", "vs. this recipe", "fullest rank"}), rows));
}

Html rank_section(const PlanReport& report) {
  std::vector<std::string> head = {"pipeline rank", "first rank", "identical ranks", "peak"};
  for (const MemoryName& name : memory_names) head.emplace_back(name.label);
  if (uses_host(report)) head.emplace_back("host");
  if (uses_disk(report)) head.insert(head.end(), {"disk", "moved per step"});
  head.emplace_back("peak at");
  std::vector<std::vector<Html>> rows;
  for (const PlannedRank& rank : report.ranks)
    if (rows.size() < most_rows) rows.push_back(rank_cells(report, rank));
  Html text(
      "<section><h2>Memory per rank</h2><p class=\"note\">The peak is the largest total at one time; each category "
      "shows its own maximum, which may occur at another time.");
  if (report.ranks.size() > most_rows)
    text += html(" The first {} of {} are listed; <code>--json</code> has all.", most_rows, report.ranks.size());
  return text + "</p>" + html_table(0, text_cells(head), rows) + "</section>\n";
}

Html communication_section(const PlanReport& report) {
  if (report.communication.empty()) return {};
  std::vector<std::vector<Html>> rows;
  for (const CommunicationEntry& line : report.communication)
    rows.push_back(
        text_cells({with_spaces(purpose_name(line.purpose)), with_spaces(planned_name(line.collective)),
                    with_spaces(line.tensors), std::to_string(line.ranks), bytes_text(line.bytes_per_rank_per_step),
                    duration_text(line.seconds), duration_text(line.exposed_seconds)}));
  return "<section><h2>Communication</h2><p class=\"note\">What the busiest rank sends per step; exposed is the time "
         "that no "
         "computation hides.</p>" +
         html_table(3, text_cells({"purpose", "collective", "tensors", "ranks", "sent", "time", "exposed"}), rows) +
         "</section>\n";
}

Html recipe_section(const PlanReport& report) {
  const std::string json = to_json(report.recipe).dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  return recipe_details(json);
}

}  // namespace llmtrain
