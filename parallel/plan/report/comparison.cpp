// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/comparison.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>

#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/page/setting_text.h"
#include "parallel/plan/report/report.h"

namespace llmtrain {
namespace {

constexpr std::size_t name_width = 26;
constexpr std::size_t wide_value = 14, narrow_value = 11;
constexpr std::size_t change_width = 12;
constexpr std::size_t key_width = 28;
constexpr std::size_t setting_width = 15;

// "+12.3 %", and nothing where a ratio says nothing.
std::string change(double first, double second) {
  if (!(first > 0) || !std::isfinite(second)) return "";
  // Beyond some size a factor is easier to read than a percentage.
  if (second >= 10 * first) return fmt::format("× {:.3g}", second / first);
  const double percentage = 100 * (second / first - 1);
  // Below what the digits show.
  return std::abs(percentage) < 0.05 ? "=" : fmt::format("{:+.1f} %", percentage);
}

class Writer {
 public:
  explicit Writer(const TextStyle& style) : paint_{style.colour}, width_(std::min(style.width, page_width)) {
    if (name_width + 2 * wide_value + change_width > width_) value_width_ = narrow_value;
  }

  void heading(std::string_view text) { text_ += '\n' + paint_(Ink::strong, text) + '\n'; }
  void value_heading(std::string_view text) {
    heading(left_aligned(text, name_width) + right_aligned("first", value_width_) +
            right_aligned("second", value_width_));
  }
  void row(std::string_view label, const std::string& first, const std::string& second, const std::string& difference,
           Ink ink = Ink::plain) {
    text_ += "  " + left_aligned(label, name_width - 2) + right_aligned(first, value_width_) +
             right_aligned(second, value_width_);
    if (!difference.empty()) text_ += paint_(ink, right_aligned(difference, change_width));
    text_ += '\n';
  }
  void line(const std::string& text) { text_ += clipped(text, width_) + '\n'; }
  void sentence(const std::string& text) { text_ += paragraph(text, width_); }
  // A key, its values, and what changes with it: beside them where the page is wide enough, else below.
  void key(const std::string& name, std::string_view first, std::string_view second, const std::string& effect,
           Ink ink = Ink::plain) {
    const std::string values =
        left_aligned(name, key_width) + right_aligned(first, setting_width) + right_aligned(second, setting_width);
    std::istringstream lines(described(values, effect, width_ >= page_width ? columns(values) + 3 : 6, width_));
    for (std::string each; std::getline(lines, each);) text_ += paint_(ink, each) + '\n';
  }
  std::string text() const { return text_; }

 private:
  Paint paint_;
  std::size_t width_;
  std::size_t value_width_ = wide_value;
  std::string text_;
};

enum class Better { less, more };

void write_number(Writer& page, std::string_view label, double first, double second, Better better,
                  std::string (*words)(double)) {
  const std::string difference = change(first, second);
  const bool is_change = difference.size() > 1;
  const bool is_good = (second > first) == (better == Better::more);
  page.row(label, words(first), words(second), difference, !is_change ? Ink::plain : is_good ? Ink::good : Ink::notice);
}

void write_figures(Writer& page, const PlanReport& first, const PlanReport& second) {
  page.value_heading("Figures");
  const auto fits = [](const PlanReport& report) {
    if (report.device_memory_bytes <= 0) return std::string("unknown");
    if (verdict_of(report) == MemoryVerdict::tight) return std::string("tight");
    return std::string(report.fits ? "yes" : "no");
  };
  page.row("fits", fits(first), fits(second), "");
  page.row("devices", std::to_string(first.mesh.world()), std::to_string(second.mesh.world()), "");
  write_number(page, "step", first.step.seconds, second.step.seconds, Better::less, duration_text);
  const PlannedThroughput &before = first.throughput, &after = second.throughput;
  write_number(page, "tokens/s", before.tokens_per_second, after.tokens_per_second, Better::more, format_count);
  write_number(page, "tokens/s per device", before.tokens_per_second_per_device, after.tokens_per_second_per_device,
               Better::more, format_count);
  write_number(page, "MFU", before.mfu, after.mfu, Better::more, percent);
  write_number(page, "HFU", before.hfu, after.hfu, Better::more, percent);
  write_number(page, "run", first.run.seconds, second.run.seconds, Better::less, duration_text);
  write_number(page, "device-hours", first.run.device_hours, second.run.device_hours, Better::less, format_count);
  const std::string& currency = first.run.currency;
  if (first.run.price && second.run.price && currency == second.run.currency)
    write_number(page, currency.empty() ? "price" : "price in " + currency, *first.run.price, *second.run.price,
                 Better::less, format_count);
}

void write_step(Writer& page, const PlanReport& first, const PlanReport& second) {
  page.heading("Time of a step");
  const auto before = split_step(first.step), after = split_step(second.step);
  for (std::size_t i = 0; i < step_parts; ++i) {
    const double most = std::max(before[i].seconds / first.step.seconds, after[i].seconds / second.step.seconds);
    if (most < negligible_share) continue;
    const double difference = after[i].seconds - before[i].seconds;
    const std::string sign = difference < 0 ? "-" : "+";
    const bool differs = std::abs(difference) > negligible_share * first.step.seconds;
    page.row(before[i].label, duration_text(before[i].seconds), duration_text(after[i].seconds),
             differs ? sign + duration_text(std::abs(difference)) : "=",
             !differs         ? Ink::plain
             : difference < 0 ? Ink::good
                              : Ink::notice);
  }
}

void write_memory(Writer& page, const PlanReport& first, const PlanReport& second) {
  page.heading("Memory, fullest rank");
  const PlannedRank &before = fullest_rank(first), &after = fullest_rank(second);
  write_number(page, "peak", before.peak_bytes, after.peak_bytes, Better::less, bytes_text);
  for (const MemoryName& name : memory_names) {
    const double was = before.bytes[name.category], is = after.bytes[name.category];
    if (was > 0 || is > 0) write_number(page, name.label, was, is, Better::less, bytes_text);
  }
}

std::string effect_text(const PlanReport& first, const ChangedPlan& changed) {
  if (!changed.report) return "refused: " + printable(changed.refusal);
  const std::string time = change(first.step.seconds, changed.report->step.seconds);
  const std::string memory = change(fullest_rank(first).peak_bytes, fullest_rank(*changed.report).peak_bytes);
  std::string text = time == "=" && memory == "=" ? "no change" : fmt::format("step {}, memory {}", time, memory);
  const MemoryVerdict verdict = verdict_of(*changed.report);
  if (verdict != verdict_of(first)) text += fmt::format(", {}", verdict_word(verdict));
  return text;
}

void write_keys(Writer& page, const PlanComparison& comparison) {
  if (comparison.effects.empty()) {
    page.line("\nThe recipes differ in no key.");
    return;
  }
  page.line("");
  page.key("Keys that differ", "first", "second", "first with this key alone", Ink::strong);
  for (const KeyEffect& effect : comparison.effects)
    page.key("  " + printable(effect.difference.key), setting_text(effect.difference.first, setting_width - 2),
             setting_text(effect.difference.second, setting_width - 2), effect_text(comparison.first, effect.alone));
  if (comparison.together)
    page.key("  the refused keys together", "", "", effect_text(comparison.first, *comparison.together));
}

Json changed_json(const ChangedPlan& changed) {
  Json json = {{"refused", changed.report ? Json(nullptr) : Json(changed.refusal)}};
  if (!changed.report) return json;
  json["step_seconds"] = changed.report->step.seconds;
  json["peak_bytes"] = static_cast<std::int64_t>(fullest_rank(*changed.report).peak_bytes);
  json["fits"] = changed.report->fits;
  json["verdict"] = verdict_word(verdict_of(*changed.report));
  return json;
}

Json effect_json(const KeyEffect& effect) {
  Json json = {
      {"key", effect.difference.key}, {"first", effect.difference.first}, {"second", effect.difference.second}};
  json.update(changed_json(effect.alone));
  return json;
}

}  // namespace

std::vector<KeyDifference> key_differences(const Recipe& first, const Recipe& second) {
  std::vector<KeyDifference> found = recipe_differences(first, second);
  std::erase_if(found, [](const KeyDifference& difference) {
    return difference.key == "name" || difference.key == "description" || difference.key == "log.directory";
  });
  return found;
}

std::string comparison_text(const PlanComparison& comparison, const TextStyle& style) {
  const PlanReport &first = comparison.first, &second = comparison.second;
  Writer page(style);
  page.line(fmt::format("first   {} on {}", printable(first.recipe.name), printable(first.profile)));
  page.line(fmt::format("second  {} on {}", printable(second.recipe.name), printable(second.profile)));
  if (first.derives_data) page.sentence("first's data ranks: " + derived_data_text(first));
  if (second.derives_data) page.sentence("second's data ranks: " + derived_data_text(second));
  write_figures(page, first, second);
  write_step(page, first, second);
  write_memory(page, first, second);
  write_keys(page, comparison);
  return page.text();
}

std::string comparison_json(const PlanComparison& comparison) {
  Json differences = Json::array();
  for (const KeyEffect& effect : comparison.effects) differences.push_back(effect_json(effect));
  const Json json = {{"plans", Json::array({to_json(comparison.first), to_json(comparison.second)})},
                     {"differences", std::move(differences)},
                     {"refused_together", comparison.together ? changed_json(*comparison.together) : Json(nullptr)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace llmtrain
