// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "apps/llmtrain/mpirun/launcher_words.h"

namespace llmtrain::app {

// Carries what a launcher and its ranks write to this process's standard output and error, on a thread of its own. A
// reader that goes away does not reach them: the rest is dropped. What mpirun says of the end of a rank is held back.
class OutputRelay {
 public:
  // Throws Error(internal_error).
  OutputRelay();
  // Finishes, and hurries.
  ~OutputRelay();
  OutputRelay(const OutputRelay&) = delete;
  OutputRelay& operator=(const OutputRelay&) = delete;

  // In the launcher, between fork and exec: its standard output and error become those that are carried.
  void connect() const noexcept;
  // In the process that has started it.
  void start();
  // After the launcher has ended: blocks until all that it has written is passed on. The reader may take its time, but
  // from when `hurries` says so, what it does not take at once is dropped.
  void finish(const std::function<bool()>& hurries);

  // After finish(): what mpirun has said of the end of a rank, and whether anything has been shown on standard error.
  const std::string& held_back() const { return words_.taken_out(); }
  bool has_shown() const { return words_.has_shown(); }

 private:
  struct Stream {
    int from = -1;  // the pipe's ends
    int launcher = -1;
    int to = -1;  // negative: its reader has gone
  };

  void carry();
  bool carry_some(Stream& stream);
  void write_all(Stream& stream, std::string_view text) const;

  std::array<Stream, 2> streams_;  // standard output and error
  LauncherWords words_;
  std::atomic<bool> launcher_has_ended_{false}, drops_{false}, is_done_{false};
  std::thread thread_;
};

}  // namespace llmtrain::app
