// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace llmtrain {

// In bytes; 0 where the system does not say.
struct HostMemory {
  std::int64_t total = 0;      // of the machine or, if that is less, what its container may use
  std::int64_t available = 0;  // of it, without making other programs swap
  std::int64_t limit = 0;      // of the control groups of a container or job; 0: none below the machine's memory
};

// This machine's, as the kernel says in the folders /proc and /sys below `root`.
HostMemory host_memory(const std::filesystem::path& root = "/");

// What to do where memory runs out, as the end of a sentence; asked only then, by any thread. Empty: nothing better is
// known than what out_of_memory() says by itself.
using MemoryAdvice = std::function<std::string()>;

// From now on out_of_memory() of this library ends with it. An empty function takes it back.
void advise_on_memory(MemoryAdvice advice);

// If the error is one of memory that could not be had, one sentence that says what was asked for (LibTorch says it;
// std::bad_alloc does not), what this machine has, and what to do: the advice, or to look at the plan.
std::optional<std::string> out_of_memory(const std::exception& error);

}  // namespace llmtrain
