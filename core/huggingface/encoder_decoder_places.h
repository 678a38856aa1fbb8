// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/recipe/model_from/huggingface_config.h"
#include "core/recipe/model_recipe.h"

namespace llmtrain {

// The tensor in which transformers keeps the parameters of a local name; the first {} stands for the layer's index, the
// second one for the expert's.
struct TensorPlace {
  enum class Storage { plain, transposed };

  std::string_view parameter;
  std::string_view name;
  Storage storage = Storage::plain;
};

// Where BART and T5 have parameters, which are named with their side, "encoder.attention.query.weight", and what is in
// no layer with its block.
std::vector<std::span<const TensorPlace>> encoder_decoder_places(HuggingfaceType type, Activation activation);

}  // namespace llmtrain
