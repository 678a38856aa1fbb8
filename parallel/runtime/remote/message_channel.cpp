// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/remote/message_channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "core/base/error.h"

namespace llmtrain::remote {
namespace {

constexpr std::size_t length_bytes = sizeof(std::uint32_t);
constexpr std::size_t piece_bytes = std::size_t{64} << 10;
constexpr std::size_t largest_kept = std::size_t{1} << 20;

}  // namespace

MessageChannel::MessageChannel(int socket) : socket_(socket), writer_([this] { write_all(); }) {}

MessageChannel::~MessageChannel() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    has_bytes_.notify_one();
  }
  writer_.join();
  ::close(socket_);
}

void MessageChannel::send(const std::string& message) {
  const std::lock_guard lock(mutex_);
  add(message);
}

void MessageChannel::send_in_turn(const std::string& message) {
  std::unique_lock lock(mutex_);
  has_room_.wait(lock, [&] { return is_closed_ || unsent_.size() <= most_unsent; });
  add(message);
}

void MessageChannel::add(const std::string& message) {
  if (message.size() > most_bytes)
    throw Error(ExitCode::bad_data, "a request of " + std::to_string(message.size()) +
                                        " bytes of ids is larger than one may be (" + std::to_string(most_bytes) + ")");
  if (is_closed_) return;
  const auto length = static_cast<std::uint32_t>(message.size());
  unsent_.append(reinterpret_cast<const char*>(&length), length_bytes);
  unsent_ += message;
  has_bytes_.notify_one();
}

void MessageChannel::write_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    has_bytes_.wait(lock, [&] { return is_ending_ || is_closed_ || !unsent_.empty(); });
    if (is_closed_ || unsent_.empty()) return;
    const std::string bytes = std::exchange(unsent_, {});
    has_room_.notify_all();
    lock.unlock();
    const bool is_written = write(bytes);
    lock.lock();
    if (is_written) continue;
    is_closed_ = true;
    has_room_.notify_all();
  }
}

// Whether the other end is still there.
bool MessageChannel::write(const std::string& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::send(socket_, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

bool MessageChannel::wait(std::chrono::milliseconds time) {
  if (received_.size() > returned_) return true;
  pollfd asked{.fd = socket_, .events = POLLIN, .revents = 0};
  return ::poll(&asked, 1, static_cast<int>(time.count())) > 0;
}

std::optional<std::string> MessageChannel::receive() {
  while (true) {
    const std::size_t there = received_.size() - returned_;
    std::uint32_t length = 0;
    if (there >= length_bytes) {
      std::memcpy(&length, received_.data() + returned_, length_bytes);
      if (length > most_bytes)
        throw Error(ExitCode::internal_error, "a message between the server and the model's process is too large");
      if (there - length_bytes >= length) {
        std::string message = received_.substr(returned_ + length_bytes, length);
        returned_ += length_bytes + length;
        return message;
      }
    }
    if (fill()) continue;
    if (there == 0) return std::nullopt;
    throw Error(ExitCode::internal_error, "a message between the server and the model's process breaks off");
  }
}

// More of what comes, in pieces, so that a length alone takes no memory. Whether there was some.
bool MessageChannel::fill() {
  received_.erase(0, returned_);
  returned_ = 0;
  // A large message leaves its memory behind.
  if (received_.empty() && received_.capacity() > largest_kept) received_.shrink_to_fit();
  const std::size_t before = received_.size();
  received_.resize(before + piece_bytes);
  ssize_t count = 0;
  do {
    count = ::recv(socket_, received_.data() + before, piece_bytes, 0);
  } while (count < 0 && errno == EINTR);
  received_.resize(before + static_cast<std::size_t>(count > 0 ? count : 0));
  return count > 0;
}

void MessageChannel::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  unsent_.clear();
  ::shutdown(socket_, SHUT_RDWR);
  has_bytes_.notify_one();
  has_room_.notify_all();
}

}  // namespace llmtrain::remote
