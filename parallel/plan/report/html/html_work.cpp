// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "core/json/json_text.h"
#include "parallel/plan/report/html/page_sections.h"
#include "parallel/plan/report/text_layout.h"

namespace llmtrain {
namespace {

// What fits beside the pointer.
constexpr std::size_t most_shown = 7;
constexpr std::size_t source_width = 100;

// Powers of 1000 with three significant digits: "989 TFLOP/s".
std::string si_text(double value, std::string_view unit) {
  constexpr std::array<std::string_view, 6> prefixes = {"", "k", "M", "G", "T", "P"};
  std::size_t prefix = 0;
  for (; value >= 999.5 && prefix + 1 < prefixes.size(); ++prefix) value /= 1000;
  return fmt::format("{:.3g} {}{}", value, prefixes[prefix], unit);
}

std::string line_of(const PricedWork& work) {
  const bool has_flops = work.unit == PricedWork::Unit::flops;
  std::string line = work.seconds > 0 ? fmt::format("{:>7}  ", duration_text(work.seconds)) : "";
  if (work.count > 1) line += fmt::format("{} × ", work.count);
  line += work.name;
  if (!work.shape.empty()) line += ", " + work.shape;
  if (work.amount > 0) line += fmt::format(": {}", has_flops ? si_text(work.amount, "FLOP") : bytes_text(work.amount));
  if (work.efficiency > 0)
    line += fmt::format(", {} of {}", percent(work.efficiency), si_text(work.peak, has_flops ? "FLOP/s" : "B/s"));
  if (!work.source.empty()) line += fmt::format(" ({})", work.basis.empty() ? work.source : work.basis);
  return line;
}

// The longest of them, the sum of the others, and where their efficiencies come from.
std::string text_of(const std::vector<PricedWork>& list, const std::map<std::string, std::string>& sources) {
  std::string text;
  std::set<std::string> used;
  // One that is left out would need a line, too.
  const std::size_t shown = list.size() > most_shown + 1 ? most_shown : list.size();
  for (std::size_t i = 0; i < shown; ++i) {
    text += line_of(list[i]) + '\n';
    used.insert(list[i].source);
  }
  double seconds = 0;
  for (std::size_t i = shown; i < list.size(); ++i) seconds += list[i].seconds;
  if (shown < list.size()) text += fmt::format("{:>7}  {} more\n", duration_text(seconds), list.size() - shown);
  for (const auto& [section, origin] : sources)
    if (used.contains(section)) text += clipped(section + ": " + origin, source_width) + '\n';
  if (!text.empty()) text.pop_back();
  return text;
}

}  // namespace

Html sources_section(const StageWork& work) {
  if (work.sources.empty()) return {};
  std::vector<std::vector<Html>> rows;
  for (const auto& [section, origin] : work.sources)
    rows.push_back({html("{}", section), html("<span class=\"prose\">{}</span>", origin)});
  return "<section><h2>Where the efficiencies come from</h2><p class=\"note\">By the section of the profile or the "
         "program that the blocks of the schedule name.</p>" +
         html_table(2, text_cells({"section", "origin"}), rows) + "</section>\n";
}

std::string work_data(const StageWork& work) {
  Json kinds = Json::array();
  for (const WorkOfStage& of : work.kinds) {
    Json texts = Json::array();
    for (const auto* list : {&of.forward, &of.backward, &of.gather, &of.reduction})
      texts.push_back(text_of(*list, work.sources));
    kinds.push_back(std::move(texts));
  }
  const Json data = {
      {"kinds", std::move(kinds)}, {"of", work.kind_of}, {"transfer", text_of(work.transfer, work.sources)}};
  return data.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace llmtrain
