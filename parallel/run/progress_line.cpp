// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/progress_line.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "core/base/units.h"
#include "core/metrics/class_counts.h"
#include "core/page/text_layout.h"

namespace llmtrain {
namespace {

constexpr std::size_t widest_bar = 24, narrowest_bar = 8;

struct Field {
  std::string text;
  int rank = 0;  // fields of higher rank are left out first
};

// Which share of the tokens' choices of experts found no room; empty where none was dropped.
std::string dropped(const TrainingRow& row) {
  if (!row.routing || row.routing->dropped_share <= 0) return "";
  const double percent = 100 * row.routing->dropped_share;
  return percent < 0.1 ? "dropped <0.1 %" : fmt::format("dropped {:.1f} %", percent);
}

}  // namespace

std::string ProgressLine::text(std::size_t width) const {
  const std::array<Field, 10> fields{
      {{fmt::format("step {:>{}}/{}", row.step, fmt::formatted_size("{}", total_steps), total_steps), 0},
       {fmt::format("loss {:.4f}", row.loss), 0},
       {terms_text(row.terms), 4},
       {fmt::format("grad norm {:.2f}", row.gradient_norm), 3},
       {dropped(row), 4},
       {fmt::format("lr {:.2e}", row.learning_rate), 5},
       {format_count(row.tokens_per_second) + " tok/s", 2},
       {fmt::format("MFU {:.0f} %", 100 * row.mfu), 6},
       {format_bytes(row.memory_bytes), 7},
       {time, 1}}};
  std::string line;
  for (int highest = 7; highest >= 0; --highest) {
    line.clear();
    for (const Field& field : fields)
      if (field.rank <= highest && !field.text.empty()) line += (line.empty() ? "" : "  ") + field.text;
    if (columns(line) <= width) return line;
  }
  return line.substr(0, width);
}

std::string figures_text(const std::vector<LossTermRow>& figures) {
  std::string text;
  for (const LossTermRow& figure : figures)
    text += fmt::format(
        "{}{} {}", text.empty() ? "" : ", ", figure_words(figure.name),
        is_share(figure.name) ? fmt::format("{:.1f} %", 100 * figure.value) : fmt::format("{:.1f}", figure.value));
  return text;
}

std::string terms_text(const std::vector<LossTermRow>& terms) {
  std::string text;
  for (const LossTermRow& term : terms)
    text += fmt::format("{}{} {:.4f}", text.empty() ? "(" : ", ", term.name, term.value);
  return text.empty() ? text : text + ")";
}

std::string progress_bar(std::int64_t step, std::int64_t total_steps, std::size_t room) {
  if (room < narrowest_bar + 1) return "";
  const auto width = static_cast<std::int64_t>(std::min(widest_bar, room - 1));
  const std::int64_t full = width * step / total_steps;
  std::string text;
  for (std::int64_t i = 0; i < width; ++i) text += i < full ? "━" : "╌";
  return text;
}

}  // namespace llmtrain
