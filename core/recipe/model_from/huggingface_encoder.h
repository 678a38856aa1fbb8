// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/recipe/model_from/config_reader.h"
#include "core/recipe/model_from/huggingface_config.h"

namespace llmtrain {

// The id of RoBERTa's padding. Its positions count from the row behind it: the rows before are never read.
inline constexpr std::int64_t roberta_padding = 1;
// Rows of the table of positions before that of a document's first token. BART's has two, whatever its padding.
constexpr std::int64_t rows_before_positions(HuggingfaceType type) {
  const bool has_rows =
      type == HuggingfaceType::roberta || type == HuggingfaceType::xlm_roberta || type == HuggingfaceType::bart;
  return has_rows ? roberta_padding + 1 : 0;
}

// What the config.json of BERT and of its kin says of layers, their norms and activations, and of a head for classes.
void read_encoder_layers(ConfigReader& reader, ModelRecipe& model);

// The config.json of BERT, RoBERTa or XLM-RoBERTa.
ModelRecipe read_encoder(ConfigReader& reader, HuggingfaceType type);

}  // namespace llmtrain
