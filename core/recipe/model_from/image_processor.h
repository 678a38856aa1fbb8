// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "core/recipe/recipe.h"

namespace llmtrain {

// How a folder of transformers makes pixels of images by its preprocessor_config.json: which part of them is seen, and
// how colours are normalised; classes and augmentation are none of it. Pixels are resized bilinearly whatever it says.
// None without such a file. Throws Error(bad_data) for one that is not that of an image processor.
std::optional<ImagesRecipe> image_processor_in(const std::filesystem::path& folder);

}  // namespace llmtrain
