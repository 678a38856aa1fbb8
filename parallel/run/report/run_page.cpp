// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/report/run_page.h"

#include <spdlog/fmt/chrono.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <ctime>
#include <utility>
#include <vector>

#include "core/base/units.h"
#include "core/metrics/class_counts.h"
#include "core/page/html_page.h"
#include "core/page/line_chart.h"
#include "core/page/text_layout.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

constexpr int refresh_seconds = 10;
constexpr std::size_t recent_rows = 100;

void keep_best(std::optional<LossFigure>& best, const LossFigure& figure) {
  if (std::isfinite(figure.loss) && (!best || figure.loss < best->loss)) best = figure;
}

struct StateWords {
  std::string_view verdict;
  std::string_view style;
};

StateWords words_of(RunState state) {
  switch (state) {
    case RunState::running:
      return {"Running", ""};
    case RunState::finished:
      return {"Finished", "good"};
    case RunState::stopped:
      return {"Stopped on request; can be continued", ""};
    case RunState::ended_early:
      return {"Ended by an error: see the log", "bad"};
  }
  return {};
}

std::string now_text() {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

std::string loss_text(double loss) { return std::isfinite(loss) ? fmt::format("{:.4f}", loss) : "not finite"; }

Html headline(const Recipe& recipe, const RunProgress& progress, RunState state) {
  const StateWords words = words_of(state);
  const std::int64_t step = progress.last() ? progress.last()->step : 0;
  Html text = html(
      "<header><div><h1>{}</h1><p>step {} of {}, {} tokens<br>as of {}</p></div><p class=\"verdict "
      "{}\">{}</p></header>\n",
      recipe.name, step, recipe.training.steps,
      format_count(static_cast<double>(progress.last() ? progress.last()->tokens : 0)), now_text(), words.style,
      words.verdict);
  if (!recipe.description.empty()) text += html("<p class=\"note\">{}</p>\n", recipe.description);
  return text;
}

// A card for each term of the loss, where there are several.
Html term_cards(const RunProgress& progress) {
  Html text;
  for (const LossTermRow& term : progress.last()->terms) {
    const auto validation = std::ranges::find(progress.validation_terms(), term.name, &LossTermRow::name);
    text += html_card(
        "Loss term " + term.name, loss_text(term.value),
        validation != progress.validation_terms().end() ? "validation " + loss_text(validation->value) : std::string());
  }
  return text;
}

Html cards(const Recipe& recipe, const RunProgress& progress, const std::optional<PlannedFigures>& planned,
           RunState state) {
  if (!progress.last()) return Html("<p class=\"note\">No step has been recorded yet.</p>\n");
  const TrainingRow& last = *progress.last();
  const auto against_plan = [&](double planned_value, std::string (*words)(double)) {
    return planned && planned_value > 0 ? words(planned_value) + " planned" : std::string("no plan");
  };
  Html text("<div class=\"cards\">");
  text += html_card("Loss", loss_text(last.loss),
                    progress.best()
                        ? fmt::format("best {} at step {}", loss_text(progress.best()->loss), progress.best()->step)
                        : "");
  if (progress.validation())
    text += html_card("Validation loss", loss_text(progress.validation()->loss),
                      fmt::format("at step {}{}", progress.validation()->step,
                                  progress.best_validation() ? ", best " + loss_text(progress.best_validation()->loss)
                                                             : std::string()));
  for (const LossTermRow& figure : progress.validation_figures())
    text += html_card("Validation " + figure_words(figure.name), fmt::format("{:.1f} %", 100 * figure.value), "");
  for (const LossTermRow& set : progress.validation_sets())
    text += html_card("Validation loss of " + set.name, loss_text(set.value), "");
  text += term_cards(progress);
  text += html_card("Step", duration_text(progress.step_seconds()),
                    against_plan(planned ? planned->step_seconds : 0, duration_text));
  text += html_card("Speed", format_count(progress.tokens_per_second()),
                    "tokens/s, " + against_plan(planned ? planned->tokens_per_second : 0, format_count));
  text += html_card("Memory", format_bytes(last.memory_bytes),
                    against_plan(planned ? planned->process_bytes : 0, bytes_text));
  const double left = progress.step_seconds() * static_cast<double>(recipe.training.steps - last.step);
  if (state == RunState::running && std::isfinite(left))
    text += html_card("Left", format_duration(left), fmt::format("{} steps", recipe.training.steps - last.step));
  if (last.skipped > 0)
    text += html_card("Skipped updates", std::to_string(last.skipped), "gradient norm not finite, or a spike");
  return text + "</div>\n";
}

}  // namespace

void RunProgress::add(const TrainingRow& row) {
  curves_.add(row, static_cast<double>(row.step));
  last_ = row;
  keep_best(best_, {row.step, row.loss});
  recent_.push_back(row);
  if (recent_.size() > recent_rows) recent_.pop_front();
}

void RunProgress::add(const EvaluationRow& row) {
  curves_.add(row, static_cast<double>(row.step));
  validation_ = {row.step, row.validation_loss};
  validation_terms_ = row.terms;
  validation_sets_ = row.sets;
  validation_figures_ = row.figures;
  keep_best(best_validation_, *validation_);
}

// From the last steps alone, so that the time left follows a run whose steps change, as with growing sequences.
double RunProgress::step_seconds() const {
  std::vector<double> values;
  for (const TrainingRow& row : recent_) values.push_back(row.step_seconds);
  return median(std::move(values));
}

double RunProgress::tokens_per_second() const {
  std::vector<double> values;
  for (const TrainingRow& row : recent_) values.push_back(row.tokens_per_second);
  return median(std::move(values));
}

std::string run_page(const Recipe& recipe, const RunProgress& progress, const std::optional<PlannedFigures>& planned,
                     RunState state, const PageSection& further) {
  const std::string json = to_json(recipe).dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  Html note;
  if (planned)
    note =
        html("<p class=\"note\">Planned figures are of <a href=\"plan.html\">the run's plan</a> with profile {}.</p>\n",
             planned->profile);
  std::vector<MarkupLiteral> scripts = {chart_script, chart_controls_script};
  scripts.insert(scripts.end(), further.scripts.begin(), further.scripts.end());
  return html_page({.title = recipe.name + (state == RunState::running ? ": running" : ""),
                    .sections = headline(recipe, progress, state) + cards(recipe, progress, planned, state) + note +
                                run_charts({&progress.curves()}, "step", planned) + further.html + recipe_details(json),
                    .footer =
                        "Measured by llmtrain run; metrics.jsonl has every number. Where many steps share a point, "
                        "the line is their mean and the band their range.",
                    .scripts = std::move(scripts),
                    .refresh_seconds = state == RunState::running ? refresh_seconds : 0});
}

}  // namespace llmtrain
