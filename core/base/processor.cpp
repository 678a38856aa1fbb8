// SPDX-License-Identifier: Apache-2.0
#include "core/base/processor.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

namespace llmtrain {

ProcessorFeatures processor_features(std::istream& cpuinfo) {
  for (std::string line; std::getline(cpuinfo, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    if (key != "flags" && key != "Features") continue;
    std::istringstream words(line.substr(colon + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
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
