// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <vector>

#include "core/huggingface/tensor_place.h"
#include "core/recipe/model_from/huggingface_config.h"
#include "core/recipe/model_recipe.h"

namespace llmtrain {

// Where BART and T5 have parameters, which are named with their side, "encoder.attention.query.weight", and what is in
// no layer with its block.
std::vector<std::span<const TensorPlace>> encoder_decoder_places(HuggingfaceType type, Activation activation);

}  // namespace llmtrain
