// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/checkpoint/safetensors.h"

namespace llmtrain {

// Writes a model's tensors to `folder` as save_pretrained does: model.safetensors, or where they take more than
// `shard_bytes` files model-00001-of-0000N.safetensors of consecutive tensors, none larger than that but for a single
// tensor, and model.safetensors.index.json that places each. Throws what write_safetensors() throws.
void write_shards(const std::filesystem::path& folder, std::vector<SafetensorsTensor> tensors,
                  std::int64_t shard_bytes);

}  // namespace llmtrain
