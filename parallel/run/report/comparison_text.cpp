// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/page/setting_text.h"
#include "parallel/run/report/comparison.h"

namespace llmtrain {
namespace {

constexpr std::size_t label_width = 30;
constexpr std::size_t narrowest_value = 14, widest_value = 24;
constexpr std::size_t widest_curve = 60;

std::string loss_words(const std::optional<LossFigure>& figure) {
  if (!figure) return "–";
  return std::isfinite(figure->loss) ? fmt::format("{:.4f}", figure->loss) : "not finite";
}

std::string step_words(const std::optional<LossFigure>& figure) { return figure ? std::to_string(figure->step) : "–"; }

template <class Words>
std::string finite_words(double value, Words words) {
  return std::isfinite(value) ? words(value) : "–";
}

// The run's loss in columns of equal tokens, as eighths of a line's height between the runs' lowest and highest loss.
std::string curve_words(const ComparedRun& run, std::size_t width, std::int64_t most_tokens, double low, double high) {
  constexpr std::array<std::string_view, 8> levels{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::string text;
  auto row = run.metrics.training.begin();
  for (std::size_t column = 1; column <= width; ++column) {
    const double until = static_cast<double>(most_tokens) * static_cast<double>(column) / static_cast<double>(width);
    double sum = 0;
    int count = 0;
    for (; row != run.metrics.training.end() && static_cast<double>(row->tokens) <= until; ++row) {
      if (!std::isfinite(row->loss)) continue;
      sum += row->loss;
      ++count;
    }
    const double share = high > low ? (sum / count - low) / (high - low) : 0;
    text += count == 0 ? " " : levels[static_cast<std::size_t>(std::clamp(share * 8, 0.0, 7.0))];
  }
  return text;
}

class TableText {
 public:
  TableText(const RunComparison& comparison, const TextStyle& style)
      : comparison_(comparison), paint_{style.colour}, page_(style.width) {
    const std::size_t runs = comparison.runs.size();
    // Names are clipped before the runs are shown in several tables.
    const std::size_t widest = std::clamp((page_ - label_width) / runs, narrowest_value, widest_value);
    width_ = narrowest_value;
    for (const ComparedRun& run : comparison.runs) width_ = std::max(width_, std::min(columns(run.name) + 2, widest));
    per_table_ = std::max<std::size_t>(1, (page_ - label_width) / width_);
  }

  void figures() {
    const auto figures = compared_figures(comparison_);
    for_each_table([&](Range runs) {
      std::string section;
      for (const ComparedFigure& figure : figures) {
        if (figure.section != section) heading(figure.section, runs);
        section = figure.section;
        row(figure.label, figure.values, runs);
      }
    });
  }
  void curves() {
    double low = std::numeric_limits<double>::infinity(), high = -low;
    std::int64_t most_tokens = 0;
    for (const ComparedRun& run : comparison_.runs) {
      most_tokens = std::max(most_tokens, run.figures.tokens);
      for (const TrainingRow& each : run.metrics.training) {
        if (!std::isfinite(each.loss)) continue;
        low = std::min(low, each.loss);
        high = std::max(high, each.loss);
      }
    }
    if (!(low <= high)) return;
    text_ += "\n" + paint_(Ink::strong, fmt::format("Loss over tokens, {:.4f} to {:.4f}", low, high)) + "\n";
    for (const ComparedRun& run : comparison_.runs)
      text_ += "  " + left_aligned(run.name, label_width - 2) +
               curve_words(run, curve_width(), most_tokens, low, high) + "\n";
  }
  void keys() {
    if (comparison_.keys.empty()) {
      text_ += "\nThe recipes differ in no key.\n";
      return;
    }
    for_each_table([&](Range runs) {
      heading("Keys that differ", runs);
      for (const ComparedKey& key : comparison_.keys) {
        std::vector<std::string> values;
        for (const Json& value : key.values) values.push_back(setting_text(value, width_ - 2));
        row(printable(key.key), values, runs);
      }
    });
  }
  std::string text() const { return text_; }

 private:
  // Runs that stand side by side.
  struct Range {
    std::size_t begin, end;
  };

  template <class Write>
  void for_each_table(Write write) {
    const std::size_t runs = comparison_.runs.size();
    for (std::size_t begin = 0; begin < runs; begin += per_table_)
      write(Range{begin, std::min(runs, begin + per_table_)});
  }
  void heading(std::string_view text, Range runs) {
    std::string line = left_aligned(text, label_width);
    for (std::size_t i = runs.begin; i < runs.end; ++i) line += right_aligned("  " + comparison_.runs[i].name, width_);
    text_ += (text_.empty() ? "" : "\n") + paint_(Ink::strong, line) + '\n';
  }
  void row(const std::string& label, const std::vector<std::string>& values, Range runs) {
    std::string line = "  " + left_aligned(label, label_width - 2);
    for (std::size_t i = runs.begin; i < runs.end; ++i) line += right_aligned(values[i], width_);
    text_ += line + '\n';
  }
  std::size_t curve_width() const { return std::min(widest_curve, page_ - label_width); }

  const RunComparison& comparison_;
  Paint paint_;
  std::size_t page_;
  std::size_t width_ = 0;
  std::size_t per_table_ = 0;
  std::string text_;
};

}  // namespace

std::vector<ComparedFigure> compared_figures(const RunComparison& comparison) {
  std::vector<ComparedFigure> figures;
  const auto add = [&](const char* section, std::string label,
                       const std::function<std::string(const ComparedRun&)>& words) {
    std::vector<std::string> values;
    for (const ComparedRun& run : comparison.runs) values.push_back(words(run));
    figures.push_back({section, std::move(label), std::move(values)});
  };
  using Run = const ComparedRun&;
  const auto count = [](std::int64_t value) { return format_count(static_cast<double>(value)); };
  add("Run", "steps", [](Run run) { return std::to_string(run.figures.steps); });
  add("Run", "tokens", [&](Run run) { return count(run.figures.tokens); });
  add("Run", "time of the recorded steps", [](Run run) { return format_duration(run.figures.seconds); });
  add("Run", "skipped updates", [](Run run) { return std::to_string(run.figures.skipped); });
  add("Loss", "last", [](Run run) { return loss_words(run.figures.last); });
  add("Loss", "best", [](Run run) { return loss_words(run.figures.best); });
  add("Loss", "best at step", [](Run run) { return step_words(run.figures.best); });
  add("Loss", "at " + count(comparison.equal_tokens) + " tokens",
      [&](Run run) { return loss_words(loss_at(run.metrics, comparison.equal_tokens)); });
  add("Loss", "validation, last", [](Run run) { return loss_words(run.figures.last_validation); });
  add("Loss", "validation, best", [](Run run) { return loss_words(run.figures.best_validation); });
  add("Loss", "validation, best at step", [](Run run) { return step_words(run.figures.best_validation); });
  add("Speed, median", "tokens/s", [](Run run) { return finite_words(run.figures.tokens_per_second, format_count); });
  add("Speed, median", "step", [](Run run) { return finite_words(run.figures.step_seconds, duration_text); });
  add("Speed, median", "MFU", [](Run run) { return finite_words(run.figures.mfu, percent); });
  add("Memory, first rank", "process, peak", [](Run run) { return format_bytes(run.figures.memory_bytes); });
  add("Memory, first rank", "tensors, peak", [](Run run) { return format_bytes(run.figures.tensor_bytes); });
  return figures;
}

std::string comparison_text(const RunComparison& comparison, const TextStyle& style) {
  TableText writer(comparison, style);
  writer.figures();
  writer.curves();
  writer.keys();
  return writer.text();
}

}  // namespace llmtrain
