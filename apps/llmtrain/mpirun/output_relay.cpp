// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/mpirun/output_relay.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace llmtrain::app {
namespace {

// How long to wait before looking again whether the launcher has ended, in milliseconds: processes that it has left
// behind may keep its pipes open.
constexpr int interval = 50;

}  // namespace

OutputRelay::OutputRelay() {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    int ends[2] = {};
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw Error(ExitCode::internal_error, std::string("cannot create a pipe: ") + std::strerror(errno));
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    streams_[i] = {.from = ends[0], .launcher = ends[1], .to = i == 0 ? STDOUT_FILENO : STDERR_FILENO};
  }
}

OutputRelay::~OutputRelay() {
  finish([] { return true; });
  for (Stream& stream : streams_) {
    ::close(stream.from);
    if (stream.launcher >= 0) ::close(stream.launcher);
  }
}

void OutputRelay::connect() const noexcept {
  ::dup2(streams_[0].launcher, STDOUT_FILENO);
  ::dup2(streams_[1].launcher, STDERR_FILENO);
}

void OutputRelay::start() {
  for (Stream& stream : streams_) ::close(std::exchange(stream.launcher, -1));
  thread_ = std::thread([this] { carry(); });
}

void OutputRelay::finish(const std::function<bool()>& hurries) {
  if (!thread_.joinable()) return;
  launcher_has_ended_ = true;
  while (!is_done_) {
    if (hurries()) drops_ = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  thread_.join();
}

// Everything, so that a line stays in one piece, or until nobody reads it.
void OutputRelay::write_all(Stream& stream, std::string_view text) const {
  while (!text.empty() && stream.to >= 0) {
    pollfd writable{stream.to, POLLOUT, 0};
    if (::poll(&writable, 1, interval) == 0) {
      if (drops_) return;
      continue;
    }
    const ssize_t written = ::write(stream.to, text.data(), std::min<std::size_t>(text.size(), PIPE_BUF));
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR && errno != EAGAIN) {
      stream.to = -1;
    }
  }
}

// Whether there may be more.
bool OutputRelay::carry_some(Stream& stream) {
  std::array<char, 16384> bytes;
  const ssize_t count = ::read(stream.from, bytes.data(), bytes.size());
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  if (count == 0) return false;
  const std::string_view text(bytes.data(), static_cast<std::size_t>(count));
  write_all(stream, &stream == &streams_[1] ? words_.take(text) : std::string(text));
  return true;
}

void OutputRelay::carry() {
  std::array<pollfd, 2> readable{{{streams_[0].from, POLLIN, 0}, {streams_[1].from, POLLIN, 0}}};
  while (readable[0].fd >= 0 || readable[1].fd >= 0) {
    const bool had_ended = launcher_has_ended_;
    const int ready = ::poll(readable.data(), readable.size(), interval);
    // What was written before the launcher's end is there by now.
    if (ready == 0 && had_ended) break;
    for (std::size_t i = 0; ready > 0 && i < readable.size(); ++i) {
      if (readable[i].revents == 0) continue;
      // poll() passes over negative descriptors.
      if (!carry_some(streams_[i])) readable[i].fd = -1;
    }
  }
  write_all(streams_[1], words_.rest());
  is_done_ = true;
}

}  // namespace llmtrain::app
