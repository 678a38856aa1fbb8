// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/text_layout.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <cstdint>
#include <string_view>

#include "core/base/units.h"

namespace llmtrain {

std::string hours_text(double hours) {
  if (hours < 0.01) return "less than 0.01 device-hours";
  // Below ten a whole number would be off by up to half of it.
  const std::string count = hours < 9.95 ? fmt::format("{:.2g}", hours) : format_count(hours);
  return count + (count == "1" ? " device-hour" : " device-hours");
}

std::string tflops_text(double tflops) {
  // Three significant digits; %g alone would write a thousand as 1e+03.
  return tflops < 999.5 ? fmt::format("{:.3g} TFLOP/s", tflops) : fmt::format("{:.0f} TFLOP/s", tflops);
}

std::string change_text(double ratio, int decimals) {
  const double percentage = 100 * (ratio - 1);
  const bool is_visible = !(std::abs(percentage) < 0.5 * std::pow(10, -decimals));
  return is_visible ? fmt::format("{:+.{}f} %", percentage, decimals) : "±0 %";
}

std::string failures_text(double failures) {
  // A run of hours on a few devices has hardly any.
  if (failures < 0.05) return "fewer than 0.1 failures";
  const std::string count = failures < 9.95 ? fmt::format("{:.2g}", failures) : format_count(failures);
  return count + (count == "1" ? " failure" : " failures");
}

std::string expert_mesh_text(const PlanReport& report) {
  const Mesh& mesh = report.mesh;
  const bool follow_tensor_ranks = mesh.expert == 1 && mesh.expert_slices() == mesh.tensor && !mesh.switches_experts;
  if (!report.recipe.model.moe || follow_tensor_ranks) return "";
  std::string text;
  const auto add = [&text](std::string_view name, std::int64_t ranks) {
    if (ranks > 1) text += fmt::format("{}{} {}", text.empty() ? ", experts: " : " × ", name, ranks);
  };
  add("expert", mesh.expert);
  add("expert_tensor", mesh.expert_tensor);
  add("joined slices", mesh.expert_joined);
  add("copies", mesh.expert_copies());
  if (mesh.switches_experts) text += ", the cheapest of the splits that a run tries";
  return text;
}

std::string price_text(const PlannedRun& run) {
  return format_count(run.price.value()) + (run.currency.empty() ? "" : " " + run.currency);
}

std::string cost_text(const PlannedRun& run) {
  std::string text = hours_text(run.device_hours);
  if (run.price) text += " for " + price_text(run);
  if (run.energy_kilowatt_hours) text += fmt::format(", {} kWh", format_count(*run.energy_kilowatt_hours));
  return text;
}

}  // namespace llmtrain
