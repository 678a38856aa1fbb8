// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/policies/policy_report.h"

#include <spdlog/fmt/fmt.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "core/json/json_text.h"
#include "core/page/text_table.h"
#include "core/recipe/pipeline_schedules.h"

namespace llmtrain {
namespace {

// In the order of Eviction.
constexpr std::array<std::string_view, 4> eviction_words = {"least_recently_used", "furthest_next_use",
                                                            "most_idle_bytes", "after_use"};

std::string update_text(const UpdateRule& update) {
  return fmt::format("{}{}", update.place == TaskPlace::host ? "host" : "device", update.is_early ? ", early" : "");
}

std::vector<TableCell> cells_of(const PolicyPrice& price, bool is_best) {
  std::vector<TableCell> cells = {{is_best ? "*" : "", Ink::good}, {std::string(name_of(price.policy).label)}};
  if (!price.choice) return cells;
  const PolicyChoice& choice = *price.choice;
  for (std::string& text : std::vector<std::string>{
           duration_text(price.step_seconds), duration_text(price.exposed_copy_seconds),
           bytes_text(price.fetched_bytes), bytes_text(price.written_bytes), bytes_text(price.peak_bytes),
           std::string(traits_of(choice.schedule).word), std::to_string(choice.loops), update_text(choice.update)})
    cells.push_back({std::move(text)});
  return cells;
}

Json price_json(const PolicyPrice& price) {
  Json json = {{"policy", name_of(price.policy).word}, {"fits", price.choice.has_value()}};
  json["least_bytes"] = price.choice ? Json(nullptr) : Json(std::llround(price.least_bytes));
  if (!price.choice) {
    for (const char* key : {"schedule", "loops", "update", "early_update", "eviction", "prefetches", "returns",
                            "peak_bytes", "fetched_bytes", "written_bytes", "step_seconds", "exposed_copy_seconds"})
      json[key] = nullptr;
    return json;
  }
  const PolicyChoice& choice = *price.choice;
  json["schedule"] = traits_of(choice.schedule).word;
  json["loops"] = choice.loops;
  json["update"] = choice.update.place == TaskPlace::host ? "host" : "device";
  json["early_update"] = choice.update.is_early;
  json["eviction"] = eviction_words[static_cast<std::size_t>(choice.residency.eviction)];
  json["prefetches"] = choice.residency.prefetches;
  json["returns"] = choice.residency.returns;
  json["peak_bytes"] = std::llround(price.peak_bytes);
  json["fetched_bytes"] = std::llround(price.fetched_bytes);
  json["written_bytes"] = std::llround(price.written_bytes);
  json["step_seconds"] = price.step_seconds;
  json["exposed_copy_seconds"] = price.exposed_copy_seconds;
  return json;
}

}  // namespace

std::string policies_text(const PolicyTable& table, const TextStyle& style) {
  std::string text = paragraph(fmt::format("Policies of memory within {} of a device; with room for everything a step "
                                           "takes {} and {}",
                                           bytes_text(table.limit_bytes), duration_text(table.unlimited_seconds),
                                           bytes_text(table.unlimited_bytes)),
                               style.width);
  TextTable rows({{""},
                  {"policy", Align::left},
                  {"step"},
                  {"waits"},
                  {"fetched"},
                  {"written"},
                  {"memory"},
                  {"schedule"},
                  {"loops"},
                  {"update"}});
  const PolicyPrice* best = nullptr;
  for (const PolicyPrice& price : table.prices)
    if (price.choice && (best == nullptr || price.step_seconds <= best->step_seconds)) best = &price;
  for (const PolicyPrice& price : table.prices) {
    const std::string note = price.choice            ? ""
                             : price.least_bytes > 0 ? "needs " + bytes_text(price.least_bytes)
                                                     : "cannot be planned for this recipe";
    rows.add(cells_of(price, &price == best), note);
  }
  text += '\n' + rows.text(style) + '\n' +
          paragraph(
              "fetched, written: bytes from and to the host per step, of the rank that moves most; waits: of its "
              "passes for them",
              style.width);
  for (const std::string& note : table.notes) text += paragraph(note, style.width);
  return text;
}

std::string policies_json(const PolicyTable& table) {
  Json policies = Json::array(), notes = Json::array();
  for (const PolicyPrice& price : table.prices) policies.push_back(price_json(price));
  for (const std::string& note : table.notes) notes.push_back(note);
  return Json{{"limit_bytes", std::llround(table.limit_bytes)},
              {"unlimited_step_seconds", table.unlimited_seconds},
              {"unlimited_peak_bytes", std::llround(table.unlimited_bytes)},
              {"policies", std::move(policies)},
              {"notes", std::move(notes)}}
             .dump(2) +
         "\n";
}

}  // namespace llmtrain
