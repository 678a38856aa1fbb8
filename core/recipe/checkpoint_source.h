// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace llmtrain {

// Before the folder of a Hugging Face model, in keys that take it or a checkpoint's path.
inline constexpr std::string_view huggingface_prefix = "hf:";

// In an imported checkpoint's folder: what it keeps of the folder of transformers beside the weights.
inline constexpr const char* kept_huggingface_folder = "huggingface";

// The folder of such a source; none of a checkpoint's path.
inline std::optional<std::string> huggingface_folder(std::string_view source) {
  if (!source.starts_with(huggingface_prefix)) return std::nullopt;
  return std::string(source.substr(huggingface_prefix.size()));
}

}  // namespace llmtrain
