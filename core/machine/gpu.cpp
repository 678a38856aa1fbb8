// SPDX-License-Identifier: Apache-2.0
#include "core/machine/gpu.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "core/machine/system_file.h"

namespace llmtrain {
std::vector<std::string> gpu_models(const std::filesystem::path& driver) {
  // A folder per GPU, named by its place on the bus.
  std::error_code failed;
  std::set<std::filesystem::path> folders;
  for (auto entry = std::filesystem::directory_iterator(driver / "gpus", failed);
       !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    folders.insert(entry->path());
  }
  std::vector<std::string> models;
  for (const auto& folder : folders)
    if (std::string model = value_in(folder / "information", "Model"); !model.empty())
      models.push_back(std::move(model));
  return models;
}

std::vector<std::string> visible_gpus(std::vector<std::string> models, const char* visible_devices) {
  if (visible_devices == nullptr) return models;
  // CUDA reads the list up to the first entry that names no GPU.
  std::size_t count = 0;
  std::istringstream list(visible_devices);
  for (std::string entry; std::getline(list, entry, ',') && !entry.empty() && !entry.starts_with('-');) ++count;
  models.resize(std::min(count, models.size()));
  return models;
}

}  // namespace llmtrain
