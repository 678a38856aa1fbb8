// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/page/text_table.h"
#include "parallel/plan/inference/report/inference_report.h"

namespace llmtrain {
namespace {

TextTable plans_table() {
  return TextTable({{""},
                    {"devices"},
                    {"batch"},
                    {"first token"},
                    {"per token"},
                    {"tokens/s"},
                    {"device-ms/token"},
                    {"memory"},
                    {"prefill", Align::left},
                    {"decode", Align::left}});
}

void add_row(TextTable& table, const InferencePlan& plan, bool is_marked) {
  table.add({{is_marked ? "*" : ""},
             {std::to_string(plan.devices)},
             {std::to_string(plan.request.batch)},
             {duration_text(plan.first_token_seconds)},
             {duration_text(plan.per_token_seconds)},
             {format_count(plan.tokens_per_second)},
             {fmt::format("{:.3g}", 1e3 * token_cost(plan))},
             {plan.fits ? bytes_text(plan.memory.sum()) : "does not fit"},
             {split_text(plan.prefill.split)},
             {split_text(plan.decode.split)}});
}

std::string title(const InferencePlan& plan, const TextStyle& style) {
  return paragraph(fmt::format("{} on {}: {} + {} tokens, weights {}, cache {}", printable(plan.name), plan.profile,
                               plan.request.prompt, plan.request.generated, word_of(plan.request.weights),
                               word_of(plan.request.cache)),
                   style.width) +
         '\n';
}

}  // namespace

std::string search_text(const InferenceSearch& search, const TextStyle& style) {
  TextTable table = plans_table();
  for (const std::size_t index : search.front) add_row(table, search.plans[index], false);
  const std::string note = fmt::format(
      "The fastest and the cheapest, and what lies between: {} of {} plans that fit, each the fastest of its "
      "devices and batch.",
      search.front.size(), search.plans.size());
  return title(search.plans.front(), style) + table.text(style) + '\n' + paragraph(note, style.width);
}

std::string target_text(const std::vector<InferencePlan>& plans, const InferenceTarget& target,
                        const TextStyle& style) {
  const auto answer = std::ranges::find_if(plans, [&](const InferencePlan& plan) { return meets(plan, target); });
  TextTable table = plans_table();
  for (const InferencePlan& plan : plans) add_row(table, plan, answer != plans.end() && &plan == &*answer);
  const std::string conclusion =
      answer == plans.end()
          ? std::string("No number of devices that was tried is enough; ask for another batch, or smaller types.")
          : fmt::format("{} {} enough.", format_number_of(answer->devices, "device"),
                        answer->devices == 1 ? "is" : "are");
  return title(plans.front(), style) + table.text(style) + '\n' + paragraph(conclusion, style.width);
}

}  // namespace llmtrain
