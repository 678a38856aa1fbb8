// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>

#include "core/base/units.h"
#include "core/page/html_page.h"
#include "core/page/line_chart.h"
#include "parallel/plan/inference/report/inference_report.h"

namespace llmtrain {
namespace {

CurvePoint point_of(const InferencePlan& plan) {
  const double cost = token_cost(plan);
  return {1e3 * plan.per_token_seconds, cost, cost, cost};
}

// The front, and a line for each number of devices, whose points are batches.
LineChart front_chart(const InferenceSearch& search) {
  LineChart chart{.title = "Cost of a generated token (device-seconds)",
                  .note =
                      "Against the time between two tokens. Each line is of a number of devices, from small batches "
                      "to large ones.",
                  .x_name = "milliseconds per token",
                  .unit = ChartUnit::seconds,
                  .is_exact = true,
                  .may_be_logarithmic = true};
  ChartLine front{"front", {}, 0};
  for (const std::size_t index : search.front) front.points.push_back(point_of(search.plans[index]));
  chart.lines.push_back(std::move(front));
  std::map<std::int64_t, std::vector<CurvePoint>> by_devices;
  for (const InferencePlan& plan : search.plans) by_devices[plan.devices].push_back(point_of(plan));
  std::size_t colour = 1;
  for (auto& [devices, points] : by_devices) {
    std::ranges::stable_sort(points, {}, &CurvePoint::x);
    chart.lines.push_back({format_number_of(devices, "device"), std::move(points), colour++});
  }
  return chart;
}

Html plans_table(const InferenceSearch& search) {
  std::vector<std::vector<Html>> rows;
  for (std::size_t index = 0; index < search.plans.size(); ++index) {
    const InferencePlan& plan = search.plans[index];
    const bool is_in_front = std::ranges::find(search.front, index) != search.front.end();
    rows.push_back(text_cells(
        {split_text(plan.prefill.split), split_text(plan.decode.split), is_in_front ? "front" : "",
         std::to_string(plan.devices), std::to_string(plan.request.batch), duration_text(plan.first_token_seconds),
         duration_text(plan.per_token_seconds), format_count(plan.tokens_per_second),
         fmt::format("{:.3g}", token_cost(plan)), percent(plan.prefill.mfu), percent(plan.decode.mfu),
         bytes_text(plan.memory.weights), bytes_text(plan.memory.cache), bytes_text(plan.memory.sum())}));
  }
  return html_table(
      3,
      text_cells({"prefill", "decode", "", "devices", "batch", "first token", "per token", "tokens/s",
                  "device-seconds per token", "MFU of prefill", "MFU of decode", "weights", "cache", "memory"}),
      rows);
}

}  // namespace

std::string search_html(const InferenceSearch& search) {
  const InferencePlan& first = search.plans.front();
  const InferencePlan& fastest = search.plans[search.front.front()];
  const InferencePlan& cheapest = search.plans[search.front.back()];
  HtmlPage page{.title = first.name + ": inference"};
  page.sections += html_card(
      "Fastest", duration_text(fastest.per_token_seconds),
      fmt::format("per token, {} sequences on {}", fastest.request.batch, format_number_of(fastest.devices, "device")));
  page.sections += html_card("Cheapest", fmt::format("{:.3g} ms", 1e3 * token_cost(cheapest)),
                             fmt::format("of a device per token, {} sequences on {}", cheapest.request.batch,
                                         format_number_of(cheapest.devices, "device")));
  page.sections += chart_grid(line_chart(front_chart(search)));
  page.sections += plans_table(search);
  page.footer = fmt::format("Planned for {}, {} parameters, {} + {} tokens, weights {}, cache {}.", first.profile,
                            format_count(static_cast<double>(first.parameters)), first.request.prompt,
                            first.request.generated, word_of(first.request.weights), word_of(first.request.cache));
  return html_page(page);
}

}  // namespace llmtrain
