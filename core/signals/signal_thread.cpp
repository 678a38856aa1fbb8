// SPDX-License-Identifier: Apache-2.0
#include "core/signals/signal_thread.h"

#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "core/base/error.h"

namespace llmtrain {
namespace {

// Written once, before a second thread exists.
sigset_t inherited{};
bool has_own_thread = false;

void block_inherited_only() { ::pthread_sigmask(SIG_SETMASK, &inherited, nullptr); }

sigset_t signals_of_others() {
  sigset_t all{};
  ::sigfillset(&all);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) ::sigdelset(&all, own);
  return all;
}

void* wait_for_signals(void*) {
  block_inherited_only();
  while (true) ::pause();
}

void require(int failure, const char* what) {
  if (failure == 0) return;
  throw Error(ExitCode::internal_error, std::string("the thread that receives signals cannot be ") + what + ": " +
                                            std::strerror(failure) + "; check the limits of processes and memory");
}

void start_thread() {
  pthread_attr_t attributes{};
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread{};
  const int failure = ::pthread_create(&thread, &attributes, wait_for_signals, nullptr);
  ::pthread_attr_destroy(&attributes);
  require(failure, "started");
}

// Room for the registers that the system saves, whose number grows with processors, and for a handler.
std::size_t alternate_stack_bytes() {
  constexpr std::size_t handler = 64 << 10;
  const auto registers = static_cast<std::size_t>(::getauxval(AT_MINSIGSTKSZ));
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return (handler + registers + page - 1) / page * page;
}

class AlternateStack {
 public:
  AlternateStack() noexcept : bytes_(alternate_stack_bytes()) {
    stack_t current{};
    // Sanitizers give threads one of their own.
    if (::sigaltstack(nullptr, &current) != 0 || (current.ss_flags & SS_DISABLE) == 0) return;
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (memory_ == MAP_FAILED) return;
    stack_t own{};
    own.ss_sp = memory_;
    own.ss_size = bytes_;
    ::sigaltstack(&own, nullptr);
  }
  ~AlternateStack() {
    if (memory_ == MAP_FAILED) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    ::sigaltstack(&none, nullptr);
    ::munmap(memory_, bytes_);
  }
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;

 private:
  std::size_t bytes_;
  void* memory_ = MAP_FAILED;
};

}  // namespace

void receive_signals_on_own_thread() {
  const sigset_t blocked = signals_of_others();
  require(::pthread_sigmask(SIG_BLOCK, &blocked, &inherited), "prepared");
  has_own_thread = true;
  require(::pthread_atfork(nullptr, nullptr, block_inherited_only), "prepared");
  start_thread();
}

InheritedSignals::InheritedSignals() noexcept {
  ::pthread_sigmask(SIG_SETMASK, has_own_thread ? &inherited : nullptr, &former_);
}

InheritedSignals::~InheritedSignals() { ::pthread_sigmask(SIG_SETMASK, &former_, nullptr); }

void use_alternate_signal_stack() noexcept { static thread_local AlternateStack stack; }

}  // namespace llmtrain
