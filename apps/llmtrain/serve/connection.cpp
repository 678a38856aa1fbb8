// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

namespace llmtrain::app {
namespace {

constexpr std::chrono::milliseconds poll_interval{100};
constexpr std::chrono::seconds write_limit{30}, finish_limit{2};
constexpr std::size_t finish_bytes = std::size_t{64} << 20;

// Whether the socket is ready for one of the events within an poll_interval.
bool is_ready(int socket, short events, std::chrono::milliseconds wait) {
  pollfd asked{.fd = socket, .events = events, .revents = 0};
  return ::poll(&asked, 1, static_cast<int>(wait.count())) > 0 && asked.revents != 0;
}

bool may_try_again() { return errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK; }

[[noreturn]] void lose() { throw ConnectionLost(std::generic_category().message(errno)); }

}  // namespace

Connection::Connection(int socket, std::function<bool()> ends) : socket_(socket), ends_(std::move(ends)) {}

Connection::~Connection() { ::close(socket_); }

std::size_t Connection::read(char* memory, std::size_t size, Clock::time_point until) {
  while (Clock::now() < until && !ends_()) {
    if (!is_ready(socket_, POLLIN, poll_interval)) continue;
    const ssize_t count = ::recv(socket_, memory, size, MSG_DONTWAIT);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (!may_try_again()) lose();
  }
  return 0;
}

void Connection::write(std::string_view bytes) {
  Clock::time_point until = Clock::now() + write_limit;
  while (!bytes.empty()) {
    const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
      until = Clock::now() + write_limit;
      continue;
    }
    if (!may_try_again()) lose();
    if (Clock::now() > until) throw ConnectionLost("the client takes nothing");
    is_ready(socket_, POLLOUT, poll_interval);
  }
}

bool Connection::is_gone() const { return is_ready(socket_, POLLRDHUP, std::chrono::milliseconds(0)); }

void Connection::finish() {
  ::shutdown(socket_, SHUT_WR);
  std::array<char, 16384> memory{};
  std::size_t left = finish_bytes;
  const Clock::time_point until = Clock::now() + finish_limit;
  while (const std::size_t count = read(memory.data(), std::min(memory.size(), left), until)) left -= count;
}

}  // namespace llmtrain::app
