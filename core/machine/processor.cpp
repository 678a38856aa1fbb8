// SPDX-License-Identifier: Apache-2.0
#include "core/machine/processor.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <sstream>
#include <string_view>
#include <thread>

namespace llmtrain {

namespace {

// What follows the colon of the first line that has one of the keys.
std::string value_of(std::istream& cpuinfo, std::initializer_list<std::string_view> keys) {
  for (std::string line; std::getline(cpuinfo, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    if (std::ranges::find(keys, key) == keys.end()) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

}  // namespace

int usable_cores() {
  cpu_set_t cores;
  // The set counts 1,024 processors; on a larger machine nothing is known of restrictions.
  const bool is_known = ::sched_getaffinity(0, sizeof cores, &cores) == 0;
  return std::max(1, is_known ? CPU_COUNT(&cores) : static_cast<int>(std::thread::hardware_concurrency()));
}

int instruction_set_level() {
#if !defined(__x86_64__)
  return 0;
#elif defined(__clang__)
  // Clang 14 does not know the levels' names. What else a level has, every processor with these has too.
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return 4;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") ? 3 : 2;
#else
  if (__builtin_cpu_supports("x86-64-v4")) return 4;
  return __builtin_cpu_supports("x86-64-v3") ? 3 : 2;
#endif
}

std::string processor_name(std::istream& cpuinfo) {
  std::string first;  // the lines of the first processor, until an empty one
  for (std::string line; std::getline(cpuinfo, line) && !line.empty();) first += line + "\n";
  const auto value = [&first](std::string_view key) {
    std::istringstream lines(first);
    return value_of(lines, {key});
  };
  std::string name = value("model name");
  if (!name.empty()) return name;
  for (const char* key : {"CPU implementer", "CPU variant", "CPU part"})
    if (const std::string number = value(key); !number.empty()) name += (name.empty() ? "" : " ") + number;
  return name;
}

std::string processor_name() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  return processor_name(cpuinfo);
}

ProcessorFeatures processor_features(std::istream& cpuinfo) {
  std::istringstream words(value_of(cpuinfo, {"flags", "Features"}));
  return {std::istream_iterator<std::string>(words), {}};
}

ProcessorFeatures processor_features() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  return processor_features(cpuinfo);
}

bool has_bf16_instructions(const ProcessorFeatures& features) {
  constexpr std::array<std::string_view, 3> names = {"avx512_bf16", "amx_bf16", "bf16"};
  return std::ranges::any_of(names, [&](std::string_view name) { return features.contains(name); });
}

}  // namespace llmtrain
