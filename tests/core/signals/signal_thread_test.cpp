// SPDX-License-Identifier: Apache-2.0
#include "core/signals/signal_thread.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>
#include <string>
#include <thread>

#include "tests/support/child_process.h"

namespace llmtrain {
namespace {

// As the kernel says it: bit n - 1 of a thread's word stands for signal n.
std::map<pid_t, std::uint64_t> blocked_by_threads() {
  std::map<pid_t, std::uint64_t> blocked;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("SigBlk:"))
        blocked[std::stoi(thread.path().filename())] = std::stoull(line.substr(8), nullptr, 16);
  }
  return blocked;
}

bool blocks(std::uint64_t word, int signal) { return (word >> (signal - 1) & 1) != 0; }

std::atomic<pid_t> handled_by{0};

void note_thread(int) { handled_by = ::gettid(); }

pid_t thread_that_handles(int signal) {
  handled_by = 0;
  std::signal(signal, note_thread);
  ::kill(::getpid(), signal);
  while (handled_by == 0) ::usleep(1000);
  return handled_by;
}

TEST_CASE("one thread alone receives signals, also of those that start later") {
  const std::string found = test::in_child([]() -> std::string {
    receive_signals_on_own_thread();
    std::promise<void> end;
    std::array<pid_t, 3> own{::gettid()};
    std::atomic<std::size_t> started{1}, waiting{1};
    const auto wait = [&, ended = end.get_future().share()] {
      own[started++] = ::gettid();
      ++waiting;
      ended.wait();
    };
    std::thread first(wait), second([&] { std::thread(wait).join(); });
    // Until they have started, threads block all signals.
    thread_that_handles(SIGUSR2);
    while (waiting < own.size()) ::usleep(1000);
    std::string result;
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGPROF, SIGCHLD, SIGRTMIN}) {
      int receivers = 0;
      pid_t receiver = 0;
      for (const auto& [thread, word] : blocked_by_threads()) {
        if (blocks(word, signal)) continue;
        ++receivers;
        receiver = thread;
      }
      if (receivers != 1 || receiver == ::gettid() || thread_that_handles(signal) != receiver)
        result += "signal " + std::to_string(signal) + ": " + std::to_string(receivers) + " receivers; ";
    }
    // A sanitizer's own thread blocks all.
    const auto blocked = blocked_by_threads();
    for (const pid_t thread : own)
      for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT})
        if (blocks(blocked.at(thread), signal)) result += "an instruction's signal is blocked; ";
    end.set_value();
    first.join();
    second.join();
    return result;
  });
  CHECK(found == "");
}

TEST_CASE("other processes are started with the signals that this one was started with") {
  const std::string found = test::in_child([]() -> std::string {
    sigset_t given{};
    ::sigemptyset(&given);
    ::sigaddset(&given, SIGUSR2);
    ::pthread_sigmask(SIG_SETMASK, &given, nullptr);
    receive_signals_on_own_thread();
    const auto own = [] { return blocked_by_threads().at(::gettid()); };
    const std::string forked = test::in_child([&]() -> std::string { return std::to_string(own()); });
    std::uint64_t inside = 0;
    {
      const InheritedSignals scope;
      inside = own();
    }
    const bool blocks_again = blocks(own(), SIGTERM);
    const std::uint64_t expected = std::uint64_t{1} << (SIGUSR2 - 1);
    if (forked != std::to_string(expected)) return "forked: " + forked;
    if (inside != expected) return "inside: " + std::to_string(inside);
    return blocks_again ? "as given" : "left free";
  });
  CHECK(found == "as given");
}

std::atomic<std::uintptr_t> frame_of_handler{0};

TEST_CASE("a handler that asks for it runs on a stack of its thread's own") {
  const auto distance_from_stack = [] {
    use_alternate_signal_stack();
    use_alternate_signal_stack();
    struct sigaction action {};
    action.sa_handler = [](int) { frame_of_handler = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)); };
    action.sa_flags = SA_ONSTACK;
    struct sigaction former {};
    ::sigaction(SIGUSR2, &action, &former);
    std::raise(SIGUSR2);
    ::sigaction(SIGUSR2, &former, nullptr);
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    return frame_of_handler > here ? frame_of_handler - here : here - frame_of_handler.load();
  };
  // On the interrupted stack it would lie a few KiB below.
  constexpr std::uintptr_t far = 64 << 10;
  CHECK(distance_from_stack() > far);
  CHECK(std::async(std::launch::async, distance_from_stack).get() > far);
}

}  // namespace
}  // namespace llmtrain
