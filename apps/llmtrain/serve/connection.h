// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <string_view>

namespace llmtrain::app {

// The client has gone, or takes nothing for too long.
class ConnectionLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A client's socket, for one thread.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  // Takes the socket over. `ends` is asked several times per second while the client is waited for.
  Connection(int socket, std::function<bool()> ends);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Reads what is there, at most `size` bytes, as soon as there is any; 0 at the end of what the client sends, where
  // nothing came until `until`, and where the wait is to end. Throws ConnectionLost.
  std::size_t read(char* memory, std::size_t size, Clock::time_point until);
  // Writes all bytes. Throws ConnectionLost, also where the client takes none for half a minute.
  void write(std::string_view bytes);
  // Whether the client has closed the connection, or its half of it.
  bool is_gone() const;
  // Says that nothing more comes, and reads what the client still sends for a while: to close with unread bytes would
  // take the answer from it.
  void finish();

 private:
  int socket_;
  std::function<bool()> ends_;
};

}  // namespace llmtrain::app
