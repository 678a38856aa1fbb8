// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/console.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/base/elapsed_time.h"
#include "core/base/log.h"
#include "core/base/units.h"
#include "core/page/terminal.h"
#include "core/page/text_layout.h"
#include "parallel/run/progress_line.h"

namespace llmtrain {
namespace {

constexpr std::size_t usual_columns = 80;  // of a terminal that does not say

// Drawing more often costs time and is not readable; logs of pipes and CI should stay short.
constexpr std::chrono::milliseconds redraw_interval{100};
constexpr std::chrono::seconds plain_interval{5};

// Redrawing with escape sequences would garble logs of pipes, CI and dumb terminals.
bool is_live_terminal() {
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::string_view(term) == "dumb";
  return ::isatty(STDERR_FILENO) == 1 && !dumb && std::getenv("CI") == nullptr;
}

}  // namespace

Progress::Progress(std::int64_t total_steps, std::int64_t steps_done, bool quiet)
    : total_(total_steps),
      first_(steps_done),
      quiet_(quiet),
      live_(is_live_terminal()),
      colour_(live_ && wants_colours()) {}

Progress::~Progress() {
  if (drawn_) std::fputc('\n', stderr);
}

ProgressLine Progress::line(const TrainingRow& row) const {
  const double elapsed = seconds_since(start_);
  // Extrapolates this process's own steps: those before a resume may have run on another machine.
  const double left = elapsed / static_cast<double>(row.step - first_) * static_cast<double>(total_ - row.step);
  return {row, total_, row.step == total_ ? "in " + format_duration(elapsed) : format_duration(left) + " left"};
}

std::string Progress::drawn(const ProgressLine& shown) const {
  // A terminal wraps a line that reaches its last column, and the next one would then be drawn below it.
  // Asked at every redraw: people resize windows.
  const std::size_t width = terminal_columns(STDERR_FILENO).value_or(usual_columns) - 1;
  const std::string text = shown.text(width);
  const std::string bar = progress_bar(shown.row.step, total_, width - std::min(width, columns(text)));
  if (bar.empty()) return text;
  return (colour_ ? "\033[36m" + bar + "\033[0m " : bar + " ") + text;
}

bool Progress::due(std::int64_t step) {
  const auto now = Clock::now();
  // The first step shows that training has begun, the last one the result.
  const bool first_or_last = step == first_ + 1 || step == total_;
  const auto interval = live_ ? Clock::duration(redraw_interval) : Clock::duration(plain_interval);
  if (!first_or_last && now - last_ < interval) return false;
  last_ = now;
  return true;
}

void Progress::clear() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void Progress::show(const TrainingRow& row) {
  // The log file gets every step, however rarely the terminal is redrawn.
  const ProgressLine shown = line(row);
  log().debug("{}", shown.text());
  if (quiet_ || !due(row.step)) return;
  clear();
  if (live_) {
    std::fputs(drawn(shown).c_str(), stderr);
    drawn_ = row.step < total_;
    // The last line stays, and what follows stands below it.
    if (!drawn_) std::fputs("\n", stderr);
  } else {
    std::fputs((shown.text() + "\n").c_str(), stderr);
  }
  std::fflush(stderr);
}

void Progress::begin_work(const std::string& what) {
  constexpr std::chrono::seconds line_interval{10};
  work_.emplace(what, Clock::now(), is_drawn() ? Clock::duration(redraw_interval) : Clock::duration(line_interval));
}

void Progress::show_work(double share) {
  const auto text = work_->line_at(Clock::now(), share);
  if (!text) return;
  if (!is_drawn()) {
    log().info("{}", *text);
    return;
  }
  clear();
  std::fputs(text->substr(0, terminal_columns(STDERR_FILENO).value_or(usual_columns) - 1).c_str(), stderr);
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::note(const std::string& text) {
  clear();
  log().info("{}", text);
}

void Progress::warn(const std::string& text) {
  clear();
  log().warn("{}", text);
}

bool StopFile::exists() const {
  std::error_code unreadable;  // counts as no request
  return std::filesystem::exists(file_, unreadable);
}

void StopFile::remove() {
  std::error_code missing;  // the request came in another way
  std::filesystem::remove(file_, missing);
}

}  // namespace llmtrain
