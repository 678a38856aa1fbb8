// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>

namespace llmtrain {

// Gives the process one thread that receives its signals. The calling thread, and all threads that it and its
// descendants start from now on, block every signal but those that an instruction causes itself (SIGSEGV, SIGBUS,
// SIGFPE, SIGILL, SIGTRAP, SIGSYS and abort()'s): handlers, whoever installs them, then run on that thread's stack.
// A handler on the stack that it interrupts destroys numbers: while oneDNN's generated matrix products run, the stack
// pointer points into memory of the heap (its issue 4845).
//
// To be called once, first of all, before a library starts threads. Processes that are forked, or started inside an
// InheritedSignals, have the signals that this process was started with. Throws Error(internal_error).
void receive_signals_on_own_thread();

// While it lives, its thread blocks the signals that the process was started with and no others, so that a program
// that it starts by other means than fork() is as free to receive signals. No arithmetic may run meanwhile.
class InheritedSignals {
 public:
  InheritedSignals() noexcept;
  ~InheritedSignals();
  InheritedSignals(const InheritedSignals&) = delete;
  InheritedSignals& operator=(const InheritedSignals&) = delete;

 private:
  sigset_t former_{};
};

// Gives the calling thread a stack of its own for handlers that ask for one (SA_ONSTACK), until the thread ends; for
// the signals that an instruction causes itself, which no other thread can receive. Without memory for it the thread
// goes on without. Cheap to call again.
void use_alternate_signal_stack() noexcept;

}  // namespace llmtrain
