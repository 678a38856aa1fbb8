// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/stop_signal.h"

#include <utility>

namespace llmtrain {
namespace {

volatile std::sig_atomic_t stop_requested = 0;

void note_request(int signal) {
  stop_requested = 1;
  // A second Ctrl-C then ends the process immediately.
  if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

}  // namespace

StopSignal::StopSignal(std::filesystem::path stop_file) : stop_file_(std::move(stop_file)) {
  stop_requested = 0;
  struct sigaction action {};
  action.sa_handler = note_request;
  // System calls in progress are restarted: a request to stop must not make a write fail.
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &action, &former_[i]);
}

StopSignal::~StopSignal() {
  for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &former_[i], nullptr);
}

bool StopSignal::requested() const {
  std::error_code unreadable;  // counts as no request
  return stop_requested != 0 || std::filesystem::exists(stop_file_, unreadable);
}

void StopSignal::acknowledge() {
  std::error_code missing;  // the request came by a signal, not by the file
  std::filesystem::remove(stop_file_, missing);
}

}  // namespace llmtrain
