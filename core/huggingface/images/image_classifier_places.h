// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/huggingface/encoder_decoder_places.h"
#include "core/recipe/model_recipe.h"

namespace llmtrain {

// Where ViT has parameters; what is in no layer is named with its block.
std::span<const TensorPlace> vit_places();

// The shape in which transformers stores a tensor of ViT, of which `shape` is that of its parameter: kernels have axes
// of channels, rows and columns, and what is added to each image has an axis of one image.
std::vector<std::int64_t> vit_shape(std::string_view name, std::vector<std::int64_t> shape,
                                    const ImageInputRecipe& image);

}  // namespace llmtrain
