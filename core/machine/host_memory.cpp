// SPDX-License-Identifier: Apache-2.0
#include "core/machine/host_memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <new>
#include <string_view>
#include <utility>

#include "core/base/units.h"
#include "core/machine/control_groups.h"

namespace llmtrain {
namespace {

// "MemTotal:       24583832 kB"
std::int64_t bytes_in(const std::filesystem::path& meminfo, const std::string& name) {
  std::ifstream file(meminfo);
  for (std::string word; file >> word;) {
    std::int64_t kilobytes = 0;
    if (word == name + ":" && file >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

// What follows `words` in the text, up to the end of its line; none if it does not contain them.
std::optional<std::string> rest_of_line(std::string_view text, std::string_view words) {
  const auto begin = text.find(words);
  if (begin == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(begin + words.size());
  return std::string(rest.substr(0, rest.find('\n')));
}

struct Advisor {
  std::mutex access;  // several ranks of a process may fail at the same time
  MemoryAdvice advice;
};

Advisor& advisor() {
  static Advisor only;
  return only;
}

std::string advice_text() {
  const std::lock_guard lock(advisor().access);
  std::string text;
  try {
    if (advisor().advice) text = advisor().advice();
  } catch (const std::exception&) {
    // Memory has run out: what needs some may fail, too, and the message must come all the same.
  }
  return text.empty() ? "llmtrain plan says what a recipe needs, and which change fits" : text;
}

std::string host_text(const std::string& asked) {
  const HostMemory memory = host_memory();
  return "out of memory: " + asked + ", and this machine has " + format_bytes(memory.total) + ", " +
         format_bytes(memory.available) + " of them available; " + advice_text();
}

}  // namespace

HostMemory host_memory(const std::filesystem::path& root) {
  const auto meminfo = root / "proc/meminfo";
  HostMemory memory{bytes_in(meminfo, "MemTotal"), bytes_in(meminfo, "MemAvailable"), 0};
  const ControlGroupLimits limits = control_group_limits(root);
  // Version 1 writes a number of pages that no machine has where nothing limits it.
  if (!limits.memory || (memory.total > 0 && *limits.memory >= memory.total)) return memory;
  memory.limit = memory.total = *limits.memory;
  const std::int64_t left = std::max<std::int64_t>(0, *limits.memory - limits.memory_used.value_or(0));
  memory.available = std::min(memory.available, left);
  return memory;
}

std::optional<std::string> out_of_memory(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr)
    return host_text("this machine cannot hold what was asked for");
  const std::string_view text = error.what();
  if (const auto asked = rest_of_line(text, "DefaultCPUAllocator: can't allocate memory: you tried to allocate "))
    return host_text(format_bytes(std::atoll(asked->c_str())) + " were asked for");
  if (const auto rest = rest_of_line(text, "CUDA out of memory."))
    return "out of memory on the GPU:" + *rest + " To make it fit: " + advice_text();
  // CUDA's own words, where LibTorch's allocator asks for none: streams and contexts take some, too.
  if (text.find("CUDA error: out of memory") != std::string_view::npos)
    return "out of memory on the GPU: nothing is left for CUDA itself; nvidia-smi shows who holds it. To make it "
           "fit: " +
           advice_text();
  return std::nullopt;
}

void advise_on_memory(MemoryAdvice advice) {
  const std::lock_guard lock(advisor().access);
  advisor().advice = std::move(advice);
}

}  // namespace llmtrain
