// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/checkpoint/safetensors.h"

namespace llmtrain {

// The weights of a folder of transformers, in one file or in the files that an index names.
class HuggingfaceFiles {
 public:
  // Opens model.safetensors, else the files of model.safetensors.index.json. Throws Error(missing_input) without
  // either, Error(bad_data) for an index that disagrees with its files or names files outside the folder.
  explicit HuggingfaceFiles(const std::filesystem::path& folder);

  struct Tensor {
    const SafetensorsFile* file = nullptr;
    const SafetensorsEntry* entry = nullptr;

    std::span<const std::byte> bytes() const { return file->bytes(*entry); }
  };

  const std::map<std::string, Tensor>& tensors() const { return tensors_; }

 private:
  void open(const std::filesystem::path& file);
  void open_indexed(const std::filesystem::path& index);

  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace llmtrain
