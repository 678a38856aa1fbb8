// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace llmtrain::remote {

// One end of a pair of connected Unix sockets, between which messages of bytes pass whole and in order. A thread of its
// own writes, so that whoever sends is not held up by the reader at the other end; messages that wait for each other go
// out in one write.
class MessageChannel {
 public:
  // The largest message: larger ones are refused at both ends.
  static constexpr std::size_t most_bytes = std::size_t{1} << 30;
  // Bytes that may wait to be written before send_in_turn() waits for the other end.
  static constexpr std::size_t most_unsent = std::size_t{64} << 20;

  // Owns the socket.
  explicit MessageChannel(int socket);
  // Writes what was sent before, unless the other end has gone.
  ~MessageChannel();
  MessageChannel(const MessageChannel&) = delete;
  MessageChannel& operator=(const MessageChannel&) = delete;

  // From any thread, and never waiting. Dropped where the other end has gone. Throws Error(bad_data) for a message of
  // more than most_bytes.
  void send(const std::string& message);
  // The same, but waits while more than most_unsent are unsent: for what nobody has asked for, and so does not limit.
  void send_in_turn(const std::string& message);

  // Whether something has come, a message or its beginning, or the end, within so long. One thread may receive.
  bool wait(std::chrono::milliseconds time);
  // The next message, for which it waits; none after the last. Throws Error(internal_error) for a message that is
  // larger than most_bytes or breaks off.
  std::optional<std::string> receive();

  // Ends both directions at once: receive() returns, and what is unsent is dropped. From any thread.
  void close();

 private:
  void add(const std::string& message);  // under the lock
  void write_all();
  bool write(const std::string& bytes);
  bool fill();

  int socket_;
  std::mutex mutex_;
  std::condition_variable has_bytes_, has_room_;
  std::string unsent_;        // with the length in front of each message
  bool is_ending_ = false;    // the writer ends when nothing is unsent
  bool is_closed_ = false;    // nothing more is sent
  std::string received_;      // of the thread that receives: not yet returned
  std::size_t returned_ = 0;  // bytes of it that have been
  std::thread writer_;        // last: it uses the others
};

}  // namespace llmtrain::remote
