// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/report/run_charts.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

#include "core/metrics/class_counts.h"
#include "core/page/line_chart.h"

namespace llmtrain {
namespace {

constexpr std::size_t most_resumptions = 100;

using Runs = std::vector<const RunCurves*>;

std::vector<ChartLine> lines_of(const Runs& runs, Curve RunCurves::*curve) {
  std::vector<ChartLine> lines;
  for (std::size_t i = 0; i < runs.size(); ++i)
    if (!(runs[i]->*curve).empty()) lines.push_back({runs[i]->name, (runs[i]->*curve).points(), i});
  return lines;
}

std::vector<ChartLine> lines_of(const Runs& runs, std::vector<RunCurves::Term> RunCurves::*terms,
                                const std::string& term, Curve RunCurves::Term::*curve) {
  std::vector<ChartLine> lines;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto found = std::ranges::find(runs[i]->*terms, term, &RunCurves::Term::name);
    if (found == (runs[i]->*terms).end() || ((*found).*curve).empty()) continue;
    lines.push_back({runs[i]->name, ((*found).*curve).points(), i});
  }
  return lines;
}

// The names of all runs' terms, in the order in which they come up.
std::vector<std::string> term_names(const Runs& runs, std::vector<RunCurves::Term> RunCurves::*terms) {
  std::vector<std::string> names;
  for (const RunCurves* const run : runs)
    for (const RunCurves::Term& term : run->*terms)
      if (std::ranges::count(names, term.name) == 0) names.push_back(term.name);
  return names;
}

// What a chart of a loss has, and one of the same in evaluations.
struct LossLines {
  std::string of;    // "loss": what it is
  std::string unit;  // "in nats per token"
  std::vector<ChartLine> training, validation;
  std::vector<ChartMark> marks{};
};

std::string capitalized(std::string text) {
  if (!text.empty()) text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

// One run's lines are named by what they are; several runs' by the run.
Html loss_charts(LossLines lines, const std::string& x_name, bool is_one_run) {
  LineChart loss{
      .title = capitalized(lines.of), .note = "Training, " + lines.unit, .x_name = x_name, .may_be_logarithmic = true};
  loss.lines = std::move(lines.training);
  loss.marks = std::move(lines.marks);
  LineChart validation{.title = "Validation " + lines.of, .note = capitalized(lines.unit), .x_name = x_name};
  validation.lines = std::move(lines.validation);
  if (!is_one_run || validation.lines.empty() || loss.lines.empty()) return line_chart(loss) + line_chart(validation);
  validation.lines.front().name = "validation";
  validation.lines.front().colour = 1;
  for (ChartLine& line : loss.lines) line.name = "training";
  loss.lines.push_back(std::move(validation.lines.front()));
  loss.note = capitalized(lines.unit + "; orange: validation");
  return line_chart(loss);
}

// The charts of the loss and of figures of predictions, of the loss of each named set of validation data, and of each
// term.
Html all_loss_charts(const Runs& runs, const std::string& x_name, const std::vector<ChartMark>& marks) {
  Html charts;
  const auto add_losses = [&](LossLines lines) {
    lines.marks = marks;
    charts += loss_charts(std::move(lines), x_name, runs.size() == 1);
  };
  add_losses(
      {"loss", "in nats per token", lines_of(runs, &RunCurves::loss), lines_of(runs, &RunCurves::validation_loss)});
  for (const std::string& set : term_names(runs, &RunCurves::sets))
    add_losses({"loss of “" + set + "”",
                "in nats per token",
                {},
                lines_of(runs, &RunCurves::sets, set, &RunCurves::Term::validation_loss)});
  for (const std::string& term : term_names(runs, &RunCurves::terms))
    add_losses({"loss term “" + term + "”", "without its coefficient",
                lines_of(runs, &RunCurves::terms, term, &RunCurves::Term::loss),
                lines_of(runs, &RunCurves::terms, term, &RunCurves::Term::validation_loss)});
  for (const std::string& figure : term_names(runs, &RunCurves::figures)) {
    LineChart chart{.title = capitalized(figure_words(figure)),
                    .note = "Of validation data",
                    .x_name = x_name,
                    .unit = is_share(figure) ? ChartUnit::percent : ChartUnit::number};
    chart.marks = marks;
    chart.lines = lines_of(runs, &RunCurves::figures, figure, &RunCurves::Term::validation_loss);
    charts += line_chart(chart);
  }
  return charts;
}

// `add`: with a chart and the curve that it shows.
template <typename Add>
void add_expert_charts(const Add& add) {
  add({.title = "Experts' load", .note = "Tokens of the fullest expert, as a multiple of the mean", .has_zero = true},
      &RunCurves::expert_load);
  add({.title = "Dropped choices", .note = "Beyond an expert's capacity", .unit = ChartUnit::percent, .has_zero = true},
      &RunCurves::dropped_share);
  add({.title = "Balance loss",
       .note = "Without its coefficient; where routing is even GShard's is 1, load-importance 0"},
      &RunCurves::balance_loss);
  add({.title = "Z-loss", .note = "Of the routers' logits, without its coefficient"}, &RunCurves::z_loss);
  add({.title = "Router entropy",
       .note = "Of a token's probabilities; 1 where all experts are equal",
       .has_zero = true},
      &RunCurves::router_entropy);
}

}  // namespace

void RunCurves::add(const TrainingRow& row, double x) {
  if (row.resumed_after) {
    resumptions.push_back({last_x_, fmt::format("resumed after step {}", *row.resumed_after)});
    if (resumptions.size() > most_resumptions) resumptions.pop_front();
  }
  last_x_ = x;
  loss.add(x, row.loss);
  learning_rate.add(x, row.learning_rate);
  gradient_norm.add(x, row.gradient_norm);
  tokens_per_second.add(x, row.tokens_per_second);
  mfu.add(x, row.mfu);
  memory.add(x, static_cast<double>(row.memory_bytes));
  tensors.add(x, static_cast<double>(row.tensor_bytes));
  for (const LossTermRow& of_term : row.terms) named(terms, of_term.name).loss.add(x, of_term.value);
  if (row.routing) {
    expert_load.add(x, row.routing->expert_load);
    dropped_share.add(x, row.routing->dropped_share);
    balance_loss.add(x, row.routing->balance_loss);
    z_loss.add(x, row.routing->z_loss);
    router_entropy.add(x, row.routing->router_entropy);
  }
  if (row.loss_scale) loss_scale.add(x, *row.loss_scale);
  if (row.saturated_share) saturated_share.add(x, *row.saturated_share);
}

void RunCurves::add(const EvaluationRow& row, double x) {
  validation_loss.add(x, row.validation_loss);
  for (const LossTermRow& of_term : row.terms) named(terms, of_term.name).validation_loss.add(x, of_term.value);
  for (const LossTermRow& figure : row.figures) named(figures, figure.name).validation_loss.add(x, figure.value);
  for (const LossTermRow& set : row.sets) named(sets, set.name).validation_loss.add(x, set.value);
}

RunCurves::Term& RunCurves::named(std::vector<Term>& terms, const std::string& name) {
  const auto found = std::ranges::find(terms, name, &Term::name);
  return found != terms.end() ? *found : terms.emplace_back(Term{name, Curve(), Curve()});
}

Html run_charts(const std::vector<const RunCurves*>& runs, const std::string& x_name,
                const std::optional<PlannedFigures>& planned) {
  // Runs that are compared would mark each other's lines.
  std::vector<ChartMark> marks;
  if (runs.size() == 1) marks.assign(runs[0]->resumptions.begin(), runs[0]->resumptions.end());
  Html charts = all_loss_charts(runs, x_name, marks);
  const auto add = [&](LineChart chart, Curve RunCurves::*curve) {
    chart.x_name = x_name;
    chart.marks = marks;
    chart.lines = lines_of(runs, curve);
    charts += line_chart(chart);
  };
  const auto level = [&](double PlannedFigures::*value) -> std::optional<ChartLevel> {
    if (!planned || (*planned).*value <= 0) return std::nullopt;
    return ChartLevel{"planned", (*planned).*value};
  };
  add({.title = "Learning rate", .note = "Of each step", .is_exact = true}, &RunCurves::learning_rate);
  add({.title = "Gradient norm", .note = "Before clipping", .has_zero = true, .may_be_logarithmic = true},
      &RunCurves::gradient_norm);
  add({.title = "Speed",
       .note = "Tokens per second",
       .unit = ChartUnit::count,
       .has_zero = true,
       .level = level(&PlannedFigures::tokens_per_second)},
      &RunCurves::tokens_per_second);
  add({.title = "MFU",
       .note = "Of the rate of matrix products, measured at the start, or of the fastest step's",
       .unit = ChartUnit::percent,
       .has_zero = true},
      &RunCurves::mfu);
  add({.title = "Memory",
       .note = "Peak of the first rank's process so far",
       .unit = ChartUnit::bytes,
       .has_zero = true,
       .is_exact = true,
       .level = level(&PlannedFigures::process_bytes)},
      &RunCurves::memory);
  add_expert_charts(add);
  add({.title = "Loss scale", .note = "Halved where fp16 gradients overflow", .has_zero = true, .is_exact = true},
      &RunCurves::loss_scale);
  add({.title = "Saturated gradients",
       .note = "Share beyond the range of FP8",
       .unit = ChartUnit::percent,
       .has_zero = true},
      &RunCurves::saturated_share);
  return chart_grid(charts);
}

}  // namespace llmtrain
