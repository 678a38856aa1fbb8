// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/mpirun/launcher_words.h"

#include <algorithm>
#include <array>

namespace llmtrain::app {
namespace {

// Open MPI's opal_show_help() frames its messages with it.
const std::string& rule() {
  static const std::string line = std::string(74, '-') + "\n";
  return line;
}

// As messages of help-orterun.txt and help-errmgr-base.txt begin that tell of the end of a rank.
constexpr std::array<std::string_view, 3> ends_of_ranks{"Primary job  terminated normally, but ",
                                                        "mpirun noticed that process rank ",
                                                        "mpirun detected that one or more processes exited "};

bool is_beginning_of(std::string_view text, std::string_view whole) { return whole.starts_with(text); }

}  // namespace

void LauncherWords::pass(std::string& shown, std::size_t count) {
  shown.append(waiting_, 0, count);
  waiting_.erase(0, count);
  has_shown_ = has_shown_ || count > 0;
}

// One step of what waits; false: more has to come first.
bool LauncherWords::settle(std::string& shown) {
  const auto line_end = waiting_.find('\n');
  switch (state_) {
    case State::passing:  // up to the end of the line
      if (line_end != std::string::npos) state_ = State::waiting;
      pass(shown, line_end == std::string::npos ? waiting_.size() : line_end + 1);
      return !waiting_.empty();
    case State::waiting: {
      if (waiting_.size() <= rule().size() && is_beginning_of(waiting_, rule())) return false;
      if (!waiting_.starts_with(rule())) {
        state_ = State::passing;
        return true;
      }
      const std::string_view next = std::string_view(waiting_).substr(rule().size());
      if (std::ranges::any_of(ends_of_ranks, [&](std::string_view words) { return next.starts_with(words); })) {
        state_ = State::taking;
        return true;
      }
      if (std::ranges::any_of(ends_of_ranks, [&](std::string_view words) { return is_beginning_of(next, words); }))
        return false;
      pass(shown, rule().size());
      return true;
    }
    case State::taking: {
      const auto second = waiting_.find("\n" + rule(), rule().size());
      if (second == std::string::npos) return false;
      const auto size = second + 1 + rule().size();
      taken_out_ += waiting_.substr(0, size);
      waiting_.erase(0, size);
      state_ = State::waiting;
      return !waiting_.empty();
    }
  }
  return false;
}

std::string LauncherWords::take(std::string_view bytes) {
  std::string shown;
  waiting_ += bytes;
  while (!waiting_.empty() && settle(shown)) {
  }
  return shown;
}

std::string LauncherWords::rest() {
  std::string shown;
  pass(shown, waiting_.size());
  return shown;
}

}  // namespace llmtrain::app
