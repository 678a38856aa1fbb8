// SPDX-License-Identifier: Apache-2.0
#include "core/base/mapping_guard.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace llmtrain {
namespace {

// The handler may neither allocate nor lock: fixed places, which it only reads.
struct Mapping {
  std::atomic<std::uintptr_t> begin{0};  // 0: a free place
  std::uintptr_t end = 0;
  std::array<char, 512> file{};
};

std::array<Mapping, 4096> mappings;
std::mutex changing;
struct sigaction former {};

void write_text(std::string_view text) noexcept {
  while (!text.empty()) {
    const auto count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void handle(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (const Mapping& mapping : mappings) {
    const std::uintptr_t begin = mapping.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= mapping.end) continue;
    write_text(mapping.file.data());
    write_text(": became shorter while it was read; restore the file, and run the same command again\n");
    // Not exit(): other threads may be anywhere. Checkpoints are whole at any instant.
    ::_exit(static_cast<int>(ExitCode::bad_data));
  }
  if ((former.sa_flags & SA_SIGINFO) != 0) return former.sa_sigaction(signal, info, context);
  if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) return former.sa_handler(signal);
  // The read is repeated, and ends the process.
  std::signal(signal, SIG_DFL);
}

void install_handler() {
  struct sigaction action {};
  action.sa_sigaction = handle;
  // The stack of a thread that multiplies matrices may be anywhere (signal_thread.h).
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGBUS, &action, &former);
}

}  // namespace

void guard_mapping(const void* begin, std::size_t bytes, const std::filesystem::path& file) noexcept {
  static std::once_flag once;
  std::call_once(once, install_handler);
  const std::lock_guard lock(changing);
  const auto place = std::find_if(mappings.begin(), mappings.end(), [](const Mapping& m) { return m.begin == 0; });
  if (place == mappings.end()) return;
  const std::string shown = message_text(file.string());
  std::strncpy(place->file.data(), shown.c_str(), place->file.size() - 1);
  place->end = reinterpret_cast<std::uintptr_t>(begin) + bytes;
  place->begin.store(reinterpret_cast<std::uintptr_t>(begin), std::memory_order_release);
}

void unguard_mapping(const void* begin) noexcept {
  const std::lock_guard lock(changing);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  for (Mapping& mapping : mappings)
    if (mapping.begin == address) mapping.begin = 0;
}

}  // namespace llmtrain
