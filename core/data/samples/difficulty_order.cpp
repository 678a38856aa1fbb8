// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/difficulty_order.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <string_view>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/log.h"

namespace llmtrain {
namespace {

// A file has this, the SHA-256 of the key, and the samples as little-endian uint32.
constexpr std::string_view magic = "llmtrain order 1";
constexpr std::size_t header_bytes = magic.size() + 64;

bool is_order(std::span<const std::byte> bytes, const std::string& key) {
  const std::string header = std::string(magic) + sha256_of(key);
  return bytes.size() > header_bytes && (bytes.size() - header_bytes) % sizeof(std::uint32_t) == 0 &&
         std::memcmp(bytes.data(), header.data(), header_bytes) == 0;
}

bool holds_order(const std::filesystem::path& file, const std::string& key) {
  return path_exists(file) && is_order(MappedFile(file).bytes(), key);
}

}  // namespace

DifficultyOrder::DifficultyOrder(const std::vector<std::int64_t>& difficulties) {
  if (difficulties.size() > std::numeric_limits<std::uint32_t>::max())
    throw Error(ExitCode::bad_data, "a source has " + std::to_string(difficulties.size()) +
                                        " samples; data.curriculum.vocabulary_rarity orders fewer than 2^32: use a "
                                        "longer batch.sequence_length, or several sources");
  memory_.resize(difficulties.size());
  std::iota(memory_.begin(), memory_.end(), std::uint32_t{0});
  std::sort(memory_.begin(), memory_.end(), [&](std::uint32_t a, std::uint32_t b) {
    return difficulties[a] != difficulties[b] ? difficulties[a] < difficulties[b] : a < b;
  });
}

DifficultyOrder::DifficultyOrder(const std::filesystem::path& file, const std::string& key) : file_(file) {
  mapping_.emplace(file);
  if (!is_order(mapping_->bytes(), key))
    throw Error(ExitCode::bad_data, file.string() + ": is not the order of this run's samples; remove it");
}

void DifficultyOrder::write(const std::filesystem::path& file, const std::string& key) const {
  std::string text = std::string(magic) + sha256_of(key);
  text.append(reinterpret_cast<const char*>(memory_.data()), memory_.size() * sizeof(std::uint32_t));
  write_file_atomically(file, text);
}

std::int64_t DifficultyOrder::samples() const {
  if (!mapping_) return std::ssize(memory_);
  return static_cast<std::int64_t>((mapping_->bytes().size() - header_bytes) / sizeof(std::uint32_t));
}

std::int64_t DifficultyOrder::sample(std::int64_t rank) const {
  const auto place = static_cast<std::size_t>(rank);
  if (!mapping_) return memory_[place];
  std::uint32_t sample = 0;
  std::memcpy(&sample, mapping_->bytes().data() + header_bytes + place * sizeof sample, sizeof sample);
  if (sample >= samples()) throw Error(ExitCode::bad_data, file_.string() + ": is damaged; remove it");
  return sample;
}

DifficultyOrder cached_order(const DataCache& cache, const std::string& name, const std::string& key,
                             const std::function<std::vector<std::int64_t>(const DataCache::Stops&)>& difficulties) {
  if (cache.folder.empty()) return DifficultyOrder(difficulties([] { return false; }));
  const std::filesystem::path file = cache.folder / name;
  // The key of the process that makes it: times of files may differ between nodes.
  const std::string made = cache.once([&](const DataCache::Stops& stops) {
    if (holds_order(file, key)) return key;
    create_folder(cache.folder);
    DifficultyOrder(difficulties(stops)).write(file, key);
    log().info("{}: made, the order of the samples for data.curriculum.vocabulary_rarity", file.string());
    return key;
  });
  return {file, made};
}

}  // namespace llmtrain
