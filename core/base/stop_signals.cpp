// SPDX-License-Identifier: Apache-2.0
#include "core/base/stop_signals.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace llmtrain {
namespace {

// Names the memory of the starting process, as a path below its folder in /proc.
constexpr const char* memory_variable = "LLMTRAIN_STOP_REQUEST";

[[noreturn]] void cannot_share(const std::string& what) {
  throw Error(ExitCode::internal_error, "the memory for requests to stop cannot be " + what + ": " +
                                            std::strerror(errno) + "; check the limits of open files and memory");
}

void* map_word(int descriptor, int protection) {
  void* word = ::mmap(nullptr, sizeof(std::int32_t), protection, MAP_SHARED, descriptor, 0);
  if (word == MAP_FAILED) cannot_share("mapped");
  return word;
}

// Read by the signal handler.
std::atomic<StopSignals*> current{nullptr};

}  // namespace

StopSignals::StopSignals() {
  memory_ = ::memfd_create("llmtrain-stop", MFD_CLOEXEC);
  if (memory_ < 0 || ::ftruncate(memory_, sizeof(Word)) != 0) cannot_share("created");
  own_ = static_cast<Word*>(map_word(memory_, PROT_READ | PROT_WRITE));
  if (const char* path = std::getenv(memory_variable)) {
    const int descriptor = ::open(path, O_RDONLY | O_CLOEXEC);
    // The starting process is gone, or is another one by now: the ranks notice that by themselves.
    if (descriptor >= 0) starter_ = static_cast<Word*>(map_word(descriptor, PROT_READ));
    if (descriptor >= 0) ::close(descriptor);
  }
  current = this;
  struct sigaction action {};
  action.sa_handler = note;
  // System calls in progress are restarted: a request to stop must not make a write fail.
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < signals.size(); ++i) {
    ::sigaction(signals[i], nullptr, &former_[i]);
    if (!stays_ignored(signals[i], former_[i])) ::sigaction(signals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &former_[i], nullptr);
  current = nullptr;
  ::munmap(own_, sizeof(Word));
  if (starter_ != nullptr) ::munmap(starter_, sizeof(Word));
  ::close(memory_);
}

// Shells ignore SIGINT for what they start in the background, nohup SIGHUP: these wishes are kept. Nobody starts a
// program so that it cannot be asked to end.
bool StopSignals::stays_ignored(int signal, const struct sigaction& former) {
  return (signal == SIGINT || signal == SIGHUP) && former.sa_handler == SIG_IGN;
}

void StopSignals::note(int signal) {
  StopSignals* self = current.load();
  if (self == nullptr) return;
  self->own_->store(1);
  if (signal != SIGTERM && signal != SIGINT) return;
  if (self->terminations_.fetch_add(1) == 0) return;
  if (const pid_t process = self->insistence_.load(); process > 0) {
    ::kill(process, SIGTERM);
  } else if (signal == SIGINT) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
}

void StopSignals::share_with_children() const {
  const std::string path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(memory_);
  ::setenv(memory_variable, path.c_str(), 1);
}

}  // namespace llmtrain
