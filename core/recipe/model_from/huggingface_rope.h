// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/model_from/config_reader.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// rope_theta and rope_scaling of a model whose max_sequence_length has been read, by the rules of transformers 5:
// - older files have "rope_theta" and "rope_scaling", newer ones both in "rope_parameters"; a "rope_scaling" that is
// not
//   empty counts alone;
// - "original_max_position_embeddings" beside them counts before the one inside, which is else max_position_embeddings;
// - what a type needs must be there. Types that recipes have no keys for are problems.
// `theta` is the theta of the model's type where the file has none.
void read_rope(ConfigReader& reader, ModelRecipe& model, double theta);

// The same of types that rotate a share of each head, whose dimension has been read: "partial_rotary_factor", else
// `share`.
void read_partial_rope(ConfigReader& reader, ModelRecipe& model, double theta, double share);

// The same of gemma3_text, whose layers have positions of two kinds: newer files have an object of "rope_parameters"
// for each, older ones "rope_local_base_freq" beside those of global layers. Returns the theta of local layers, which
// have no scaling.
double read_rope_of_global_layers(ConfigReader& reader, ModelRecipe& model);

}  // namespace llmtrain
