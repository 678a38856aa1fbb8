// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/console.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/base/log.h"
#include "core/base/units.h"

namespace llmtrain {
namespace {

// Drawing more often costs time and is not readable; logs of pipes and CI should stay short.
constexpr std::chrono::milliseconds redraw_interval{100};
constexpr std::chrono::seconds plain_interval{5};
constexpr std::int64_t bar_width = 24;

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
      colour_(live_ && std::getenv("NO_COLOR") == nullptr) {}

Progress::~Progress() {
  if (drawn_) std::fputc('\n', stderr);
}

std::string Progress::bar(std::int64_t step) const {
  const std::int64_t full = bar_width * step / total_;
  std::string text;
  for (std::int64_t i = 0; i < bar_width; ++i) text += i < full ? "━" : "╌";
  return colour_ ? "\033[36m" + text + "\033[0m" : text;
}

std::string Progress::line(const TrainingRow& row) const {
  const double elapsed = std::chrono::duration<double>(Clock::now() - start_).count();
  // Extrapolates this process's own steps: those before a resume may have run on another machine.
  const double left = elapsed / static_cast<double>(row.step - first_) * static_cast<double>(total_ - row.step);
  const std::string time = row.step == total_ ? "in " + format_duration(elapsed) : format_duration(left) + " left";
  return fmt::format("step {:>{}}/{}  loss {:.4f}  grad norm {:.2f}  lr {:.2e}  {} tok/s  MFU {:.0f} %  {}  {}",
                     row.step, fmt::formatted_size("{}", total_), total_, row.loss, row.gradient_norm,
                     row.learning_rate, format_count(row.tokens_per_second), 100 * row.mfu,
                     format_bytes(row.memory_bytes), time);
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
  log().debug("{}", line(row));
  if (quiet_ || !due(row.step)) return;
  clear();
  if (live_) {
    std::fputs((bar(row.step) + " " + line(row)).c_str(), stderr);
    drawn_ = true;
  } else {
    std::fputs((line(row) + "\n").c_str(), stderr);
  }
  std::fflush(stderr);
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
