// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/recipe/recipe.h"

namespace llmtrain {

// The layers of a model, of encoder and decoder together.
constexpr std::int64_t layer_count(const ModelRecipe& model) { return model.layers + model.decoder_layers; }

// The blocks of a model's graph: one for each layer, an embedding, a head, two for each further token that it predicts,
// and of an encoder-decoder a second embedding and perhaps a norm between the two.
std::int64_t block_count(const ModelRecipe& model);

// The stages of a recipe with one layer in each, by its pipeline.balance: "blocks" counts the embedding and the head as
// a layer each, and a list states its stages.
std::int64_t finest_stages(const Recipe& recipe);

// Whether gradients that are stored in FP8 are sharded: such gradients are reduced once per step, after all
// micro-batches.
bool reduces_once(const Recipe& recipe);

// ZeRO-3 over several pipeline ranks, in a recipe that gives neither pipeline.schedule nor pipeline.loops: the order
// that bounds the activations and gathers each layer on its own, as on one pipeline rank. Interleaved with a stage per
// layer where these and the micro-batches divide by the pipeline ranks, else 1f1b; FP8 gradients need breadth_first.
// Does nothing to other recipes. `recipe` has been read; where its number of ranks is left to the machine, whether the
// micro-batches divide is unknown.
void set_default_order(Recipe& recipe);

}  // namespace llmtrain
