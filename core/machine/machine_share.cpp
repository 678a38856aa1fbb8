// SPDX-License-Identifier: Apache-2.0
#include "core/machine/machine_share.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <sstream>

#include "core/base/error.h"
#include "core/machine/gpu.h"

namespace llmtrain {

std::vector<std::string> visible_gpu_names(std::size_t count, const char* visible_devices) {
  const std::size_t visible = visible_gpus(std::vector<std::string>(count), visible_devices).size();
  std::vector<std::string> names;
  if (visible_devices != nullptr) {
    std::istringstream list(visible_devices);
    for (std::string name; names.size() < visible && std::getline(list, name, ',');) names.push_back(name);
  }
  while (names.size() < visible) names.push_back(std::to_string(names.size()));
  return names;
}

std::vector<MachineShare> machine_shares(std::int64_t jobs, std::int64_t ranks, int cores,
                                         const std::vector<std::string>& gpus) {
  std::vector<MachineShare> shares(static_cast<std::size_t>(jobs));
  if (jobs == 1) return shares;
  for (MachineShare& share : shares)
    share.threads = static_cast<int>(std::max<std::int64_t>(1, cores / (jobs * ranks)));
  if (gpus.empty()) return shares;
  const auto count = static_cast<std::int64_t>(gpus.size());
  if (jobs * ranks > count)
    throw Error(ExitCode::bad_recipe,
                fmt::format("--jobs: {} runs of {} ranks need {} GPUs, and {} are visible; must be at most {}", jobs,
                            ranks, jobs * ranks, count, std::max<std::int64_t>(1, count / ranks)));
  for (std::size_t i = 0; i < static_cast<std::size_t>(jobs * ranks); ++i) {
    std::string& own = shares[i / static_cast<std::size_t>(ranks)].gpus;
    own += (own.empty() ? "" : ",") + gpus[i];
  }
  return shares;
}

}  // namespace llmtrain
