// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>

namespace llmtrain::app {

// The word by which the program starts itself as the process of a model (run_model_process()), before the number of the
// socket that it talks to the server through.
inline constexpr std::string_view model_word = "__model";

// How a process has ended.
struct ProcessEnd {
  int code = 0;     // the exit code; of one that was killed, rank_lost
  std::string why;  // "was killed by signal 9 (Killed)"
};

// A process of this program, started anew, that loads and runs a model beside the server. It ignores what asks programs
// to end, which a terminal or a supervisor may send to all of the server's processes: it ends when the server closes
// its socket, and is killed by the kernel when the thread that has started it ends.
class ModelProcess {
 public:
  // Throws Error(internal_error).
  ModelProcess();
  // Kills it where it has not ended.
  ~ModelProcess();
  ModelProcess(const ModelProcess&) = delete;
  ModelProcess& operator=(const ModelProcess&) = delete;

  // The server's end of the socket, whose owner the caller becomes.
  int take_socket();
  // Waits for its end, and kills it after so long.
  ProcessEnd wait(std::chrono::milliseconds patience);

 private:
  pid_t process_ = -1;
  int socket_ = -1;
};

}  // namespace llmtrain::app
