// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace llmtrain::app {

// Takes out of mpirun's standard error, which is also that of the ranks, what mpirun says of the end of a rank: blocks
// between lines of dashes that say with how many words that a rank has failed, which the rank says itself. All else
// passes unchanged and at once, mpirun's other messages too.
class LauncherWords {
 public:
  // What is to be shown of it now. A line of dashes waits until the next line tells which kind of block begins.
  std::string take(std::string_view bytes);
  // At the end: what is still waiting.
  std::string rest();

  // What has been taken out; empty if mpirun has not told of a rank's end.
  const std::string& taken_out() const { return taken_out_; }
  bool has_shown() const { return has_shown_; }

 private:
  enum class State { passing, waiting, taking };

  bool settle(std::string& shown);
  void pass(std::string& shown, std::size_t count);

  std::string waiting_;
  std::string taken_out_;
  State state_ = State::waiting;  // at the start of a line
  bool has_shown_ = false;
};

}  // namespace llmtrain::app
