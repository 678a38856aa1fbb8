// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "core/checkpoint/safetensors.h"

namespace llmtrain {

// A tensor of a folder that transformers' save_pretrained wrote.
struct StoredTensor {
  std::shared_ptr<const SafetensorsFile> file;  // mapped as long as one of its tensors is in use
  const SafetensorsEntry* entry = nullptr;

  std::span<const std::byte> bytes() const { return file->bytes(*entry); }
};

using StoredTensors = std::map<std::string, StoredTensor>;  // by their names

// The tensors of model.safetensors, else of the files of model.safetensors.index.json: opened, not read. Throws
// Error(missing_input) without either, Error(bad_data) for an index that disagrees with its files or names files
// outside the folder.
StoredTensors open_tensors(const std::filesystem::path& folder);

}  // namespace llmtrain
