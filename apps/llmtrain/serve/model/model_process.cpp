// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/model/model_process.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "apps/llmtrain/launch/parent_death.h"
#include "core/base/error.h"

namespace llmtrain::app {
namespace {

constexpr auto end_interval = std::chrono::milliseconds(10);

// This program, also where its file has been replaced since it was started.
constexpr const char* own_program = "/proc/self/exe";

// The child, which has this thread alone until it is another program: it calls nothing that allocates.
[[noreturn]] void become(char* const* arguments, pid_t server, int socket) {
  for (const int request : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) ::signal(request, SIG_IGN);
  end_with_parent(server);
  ::fcntl(socket, F_SETFD, 0);
  ::execv(own_program, arguments);
  ::_exit(127);
}

ProcessEnd end_of(int status) {
  if (!WIFSIGNALED(status)) {
    const int code = WEXITSTATUS(status);
    return {code, fmt::format("has ended with exit code {}", code)};
  }
  const int signal = WTERMSIG(status);
  return {static_cast<int>(ExitCode::rank_lost),
          fmt::format("was killed by signal {} ({}){}", signal, ::strsignal(signal),
                      signal == SIGKILL ? ", as the system does where memory is short" : "")};
}

}  // namespace

ModelProcess::ModelProcess() {
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0)
    throw Error(ExitCode::internal_error, fmt::format("cannot connect the server and its model: {}; check the limit of "
                                                      "open files",
                                                      std::strerror(errno)));
  std::string name = "llmtrain", word(model_word), number = std::to_string(sockets[1]);
  const std::array<char*, 4> arguments{name.data(), word.data(), number.data(), nullptr};
  const pid_t server = ::getpid();
  process_ = ::fork();
  if (process_ == 0) become(arguments.data(), server, sockets[1]);
  const int reason = errno;
  ::close(sockets[1]);
  socket_ = sockets[0];
  if (process_ > 0) return;
  ::close(std::exchange(socket_, -1));
  throw Error(ExitCode::internal_error, fmt::format("the model's process cannot be started: {}; check the limit of "
                                                    "processes",
                                                    std::strerror(reason)));
}

ModelProcess::~ModelProcess() {
  if (socket_ >= 0) ::close(socket_);
  wait({});
}

int ModelProcess::take_socket() { return std::exchange(socket_, -1); }

ProcessEnd ModelProcess::wait(std::chrono::milliseconds patience) {
  if (process_ < 0) return {};
  const auto until = std::chrono::steady_clock::now() + patience;
  int status = 0;
  while (::waitpid(process_, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= until) ::kill(process_, SIGKILL);
    std::this_thread::sleep_for(end_interval);
  }
  process_ = -1;
  return end_of(status);
}

}  // namespace llmtrain::app
