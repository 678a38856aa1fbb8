// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string_view>
#include <utility>

#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/page/setting_text.h"
#include "parallel/plan/report/explanation.h"
#include "parallel/plan/report/report.h"

namespace llmtrain {
namespace {

constexpr std::size_t widest_label = 44, explained_figure = 13, most_figures = 3, explained_setting = 24;
// Parts of a step that change by less of the recipe's step than this say nothing of a change.
constexpr double smallest_part = 0.005;
constexpr std::size_t most_parts = 3;

double speed(const PlanReport& plan) { return plan.throughput.tokens_per_second_per_device; }

// Seconds of a device for a token, by part: recipes of other batches, sequences and devices compare.
std::array<double, step_parts> token_seconds(const PlanReport& plan) {
  std::array<double, step_parts> seconds{};
  const auto parts = split_step(plan.step);
  for (std::size_t i = 0; i < step_parts; ++i) seconds[i] = parts[i].seconds / plan.step.seconds / speed(plan);
  return seconds;
}

// "compute -12 %, bubble -8 % of the step": what a change does, relative to the whole of the recipe's step.
std::string parts_text(const PlanReport& before, const PlanReport& after, const PlanReport& recipe) {
  const auto was = token_seconds(before), is = token_seconds(after);
  const auto names = split_step(recipe.step);
  std::vector<std::pair<double, std::string_view>> changes;
  for (std::size_t i = 0; i < step_parts; ++i) {
    const double share = (is[i] - was[i]) * speed(recipe);
    if (std::abs(share) >= smallest_part) changes.emplace_back(share, names[i].label);
  }
  std::ranges::sort(changes, [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });
  if (changes.size() > most_parts) changes.resize(most_parts);
  std::string text;
  for (const auto& [share, label] : changes)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", label, change_text(1 + share, 1));
  return text;
}

std::string change_of(const KeyDifference& key) {
  return fmt::format("{} {} → {}", printable(key.key), setting_text(key.first, explained_setting),
                     setting_text(key.second, explained_setting));
}

std::string names_of(const std::vector<KeyDifference>& keys) {
  std::string text;
  for (const KeyDifference& key : keys) text += (text.empty() ? "" : ", ") + printable(key.key);
  return text;
}

class ExplanationPage {
 public:
  explicit ExplanationPage(const TextStyle& style)
      : paint_{style.colour},
        width_(std::min(style.width, page_width)),
        label_width_(std::min(widest_label, width_ - most_figures * explained_figure)) {}

  std::size_t label_width() const { return label_width_; }

  void line(const std::string& text) { text_ += clipped(text, width_) + '\n'; }
  void heading(std::string_view label, const std::vector<std::string_view>& names) {
    std::string text = left_aligned(label, label_width_);
    for (const std::string_view name : names) text += right_aligned(name, explained_figure);
    text_ += '\n' + paint_(Ink::strong, text) + '\n';
  }
  void figures(std::string_view label, const std::vector<std::string>& values, Ink ink = Ink::plain) {
    std::string text = "  " + left_aligned(label, label_width_ - 2);
    for (const std::string& value : values) text += right_aligned(value, explained_figure);
    text_ += paint_(ink, clipped(text, width_)) + '\n';
  }
  void indented(std::string_view text) { text_ += described("", text, 6, width_); }
  void sentences(std::string_view text) { text_ += '\n' + paragraph(text, width_); }
  std::string text() const { return text_; }

 private:
  Paint paint_;
  std::size_t width_, label_width_;
  std::string text_;
};

void write_speeds(ExplanationPage& page, const Explanation& explanation) {
  const double recipe = speed(explanation.recipe), source = speed(explanation.source_plan);
  page.heading("Tokens/s per device", {"recipe", "source", ""});
  page.figures("planned", {format_count(recipe), format_count(source), change_text(source / recipe, 1)});
  if (!explanation.measured) return;
  page.figures("measured", {"–", format_count(*explanation.measured)});
  page.figures("expected", {format_count(*explanation.expected())});
}

void write_changes(ExplanationPage& page, const Explanation& explanation) {
  if (explanation.changes.empty()) return;
  page.heading("From the recipe to the source", {"tokens/s", "change", "peak"});
  const auto peak = [](const PlanReport& plan) { return bytes_text(fullest_rank(plan).peak_bytes); };
  page.figures("recipe", {format_count(speed(explanation.recipe)), "", peak(explanation.recipe)});
  const PlanReport* before = &explanation.recipe;
  for (const ExplainedChange& change : explanation.changes) {
    const double ratio = speed(change.plan) / speed(*before);
    const std::vector<std::string> figures{format_count(speed(change.plan)), change_text(ratio, 1), peak(change.plan)};
    const Ink ink = ratio > 1 ? Ink::good : ratio < 1 ? Ink::notice : Ink::plain;
    std::string keys;
    for (const KeyDifference& key : change.keys) keys += (keys.empty() ? "" : ", ") + change_of(key);
    // What does not fit beside the figures has a line of its own.
    const bool fits = columns(keys) + 2 <= page.label_width();
    if (!fits) page.line("  " + keys);
    page.figures(fits ? keys : "", figures, ink);
    const std::string parts = parts_text(*before, change.plan, explanation.recipe);
    if (!parts.empty()) page.indented(parts + " of the recipe's step");
    before = &change.plan;
  }
}

// What the changes leave of the difference, and the keys that say nothing.
void write_rest(ExplanationPage& page, const Explanation& explanation) {
  const PlanReport& end = explanation.changes.empty() ? explanation.recipe : explanation.changes.back().plan;
  const double rest = speed(explanation.source_plan) / speed(end);
  if (change_text(rest, 1) != change_text(1, 1))
    page.sentences(fmt::format("What no key of the recipe says makes the source another {}: {}.", change_text(rest, 1),
                               explanation.refused.empty() ? "its devices or their profile"
                                                           : "its devices, their profile, or the refused keys"));
  if (!explanation.refused.empty())
    page.sentences("Refused with the recipe's other keys: " + names_of(explanation.refused) + ".");
  if (!explanation.without_effect.empty())
    page.sentences("Without effect on either: " + names_of(explanation.without_effect) + ".");
}

// How far the source is from its own plan, and what that says of the recipe.
void write_measured(ExplanationPage& page, const Explanation& explanation) {
  if (!explanation.measured) return;
  const double ratio = *explanation.measured / speed(explanation.source_plan);
  std::string text = fmt::format(
      "The source measured {} of what is planned for it, so that the recipe is expected to do {} tokens/s "
      "per device",
      change_text(ratio, 1) == change_text(1, 1) ? "just" : fmt::format("{:.2f}", ratio),
      format_count(*explanation.expected()));
  const auto& error = explanation.source_plan.accuracy.step;
  const bool is_beyond = error && std::abs(std::log(ratio)) > 2 * error->error;
  text += !is_beyond ? "."
                     : fmt::format(
                           "; plans err by {} for it, so that something else made it {}, which may not concern "
                           "the recipe.",
                           percent(error->error), ratio < 1 ? "slower" : "faster");
  page.sentences(text);
}

Json keys_json(const std::vector<KeyDifference>& keys) {
  Json list = Json::array();
  for (const KeyDifference& key : keys)
    list.push_back({{"key", key.key}, {"recipe", key.first}, {"source", key.second}});
  return list;
}

Json change_json(const ExplainedChange& change) {
  Json parts = Json::object();
  const auto names = split_step(change.plan.step);
  const auto seconds = token_seconds(change.plan);
  for (std::size_t i = 0; i < step_parts; ++i) parts[std::string(names[i].label)] = seconds[i];
  return {{"keys", keys_json(change.keys)},
          {"tokens_per_second_per_device", speed(change.plan)},
          {"peak_bytes", static_cast<std::int64_t>(fullest_rank(change.plan).peak_bytes)},
          {"verdict", verdict_word(verdict_of(change.plan))},
          {"parts", std::move(parts)}};
}

}  // namespace

std::string explanation_text(const Explanation& explanation, const TextStyle& style) {
  ExplanationPage page(style);
  const auto title = [](std::string_view role, std::string_view name, const PlanReport& plan) {
    return fmt::format("{}  {} on {}, {}", role, printable(name), printable(plan.profile),
                       plan.mesh.world() == 1 ? "1 device" : std::to_string(plan.mesh.world()) + " devices");
  };
  page.line(title("recipe", explanation.recipe.recipe.name, explanation.recipe));
  page.line(title("source", explanation.source, explanation.source_plan));
  if (!explanation.source_description.empty()) page.sentences(printable(explanation.source_description));
  if (explanation.recipe.derives_data)
    page.sentences("The recipe's data ranks: " + derived_data_text(explanation.recipe) + ".");
  write_speeds(page, explanation);
  write_changes(page, explanation);
  write_rest(page, explanation);
  write_measured(page, explanation);
  return page.text();
}

std::string explanation_json(const Explanation& explanation) {
  const auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  Json changes = Json::array();
  for (const ExplainedChange& change : explanation.changes) changes.push_back(change_json(change));
  const Json json = {{"recipe", to_json(explanation.recipe)},
                     {"source",
                      {{"name", explanation.source},
                       {"description", explanation.source_description},
                       {"measured_tokens_per_second_per_device", number(explanation.measured)},
                       {"plan", to_json(explanation.source_plan)}}},
                     {"expected_tokens_per_second_per_device", number(explanation.expected())},
                     {"changes", std::move(changes)},
                     {"without_effect", keys_json(explanation.without_effect)},
                     {"refused", keys_json(explanation.refused)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n';
}

}  // namespace llmtrain
