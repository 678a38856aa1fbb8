// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "core/json/json_text.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// What config.json says of the layers of BERT, RoBERTa and ViT, and of their head for classes.
void add_encoder_layers(Json& config, const ModelRecipe& model);

// What config.json says of ViT.
void add_vit(Json& config, const ModelRecipe& model);

inline constexpr const char* preprocessor_file = "preprocessor_config.json";

// Writes the file by which transformers makes pixels of images as evaluations do here, of this size: ViT's own resizes
// all of an image, others cut out its middle. Without `images` it is the one of `origin`, if that has one.
void write_preprocessor_config(const std::filesystem::path& folder, const std::optional<ImagesRecipe>& images,
                               std::int64_t size, const std::filesystem::path& origin);

}  // namespace llmtrain
