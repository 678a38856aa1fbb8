// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/shards.h"

#include <spdlog/fmt/fmt.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/base/element_type.h"
#include "core/base/file.h"

namespace llmtrain {
namespace {

// Fewer than a safetensors reader takes.
constexpr std::size_t tensors_per_file = 100'000;

std::vector<std::vector<SafetensorsTensor>> divide(std::vector<SafetensorsTensor> tensors, std::int64_t shard_bytes) {
  std::vector<std::vector<SafetensorsTensor>> shards(1);
  std::int64_t filled = 0;
  for (SafetensorsTensor& tensor : tensors) {
    const std::int64_t bytes = safetensors_bytes(tensor.dtype, tensor.shape).value_or(0);
    const bool is_full = filled + bytes > shard_bytes || shards.back().size() == tensors_per_file;
    if (is_full && !shards.back().empty()) {
      shards.emplace_back();
      filled = 0;
    }
    filled += bytes;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

}  // namespace

void write_shards(const std::filesystem::path& folder, std::vector<SafetensorsTensor> tensors,
                  std::int64_t shard_bytes) {
  auto shards = divide(std::move(tensors), shard_bytes);
  if (shards.size() == 1) {
    write_safetensors(folder / "model.safetensors", std::move(shards.front()));
    return;
  }
  std::int64_t parameters = 0, bytes = 0;
  // Sorted by name, as theirs.
  nlohmann::json weight_map = nlohmann::json::object();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    for (const SafetensorsTensor& tensor : shards[i]) {
      parameters += element_count(tensor.shape);
      bytes += safetensors_bytes(tensor.dtype, tensor.shape).value_or(0);
      weight_map[tensor.name] = name;
    }
    write_safetensors(folder / name, std::move(shards[i]));
  }
  const nlohmann::json index = {{"metadata", {{"total_parameters", parameters}, {"total_size", bytes}}},
                                {"weight_map", std::move(weight_map)}};
  write_file_atomically(folder / "model.safetensors.index.json", index.dump(2) + "\n");
}

}  // namespace llmtrain
