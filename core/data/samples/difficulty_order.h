// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/data/data_cache.h"

namespace llmtrain {

// The samples of a source from the easiest to the hardest; of equally hard ones the earlier first. Four bytes per
// sample, in memory or mapped from a file. Reading is thread-safe.
class DifficultyOrder {
 public:
  // In memory. Difficulties by sample, of fewer than 2³² samples.
  explicit DifficultyOrder(const std::vector<std::int64_t>& difficulties);
  // From a file of write(). Throws Error(bad_data) where it is none, or not for this key.
  DifficultyOrder(const std::filesystem::path& file, const std::string& key);

  // `key` says all that the order follows from. Readers see the whole file or none. Throws Error(cannot_write).
  void write(const std::filesystem::path& file, const std::string& key) const;

  std::int64_t samples() const;
  // `rank`: 0 for the easiest. Throws Error(bad_data) where the file has been damaged.
  std::int64_t sample(std::int64_t rank) const;

 private:
  std::vector<std::uint32_t> memory_;
  std::optional<MappedFile> mapping_;
  std::filesystem::path file_;
};

// What has been kept in the cache as `name` with this key, or else is made by one process and kept there, which logs
// that. Throws what `difficulties` does, Error(cannot_write), and Error(bad_data) for too many samples.
DifficultyOrder cached_order(const DataCache& cache, const std::string& name, const std::string& key,
                             const std::function<std::vector<std::int64_t>(const DataCache::Stops&)>& difficulties);

}  // namespace llmtrain
