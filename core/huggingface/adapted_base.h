// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <memory>
#include <string>

#include "core/checkpoint/checkpoint.h"
#include "core/graph/graph.h"
#include "core/huggingface/weight_source.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The base of a run with adapters is what stays as it began: the frozen parameters. Where it came from a folder of
// transformers, checkpoints leave it out and name it instead (left_out_base(), CheckpointState::base).

// SHA-256 of the names and shapes of the graph's frozen parameters and of up to 4,096 values of each, evenly spread in
// stretches of 64, as fp32: of models with equal values the same, however they are stored. Values between the
// stretches may differ unnoticed; other weights do not.
std::string base_fingerprint(const WeightSource& weights, const Graph& graph);

// The base that a checkpoint leaves out, from the folder that the recipe names in training.init_from, else the one that
// the checkpoint names. None where the checkpoint leaves nothing out. Throws what HuggingfaceWeights does, after the
// checkpoint's name.
std::unique_ptr<const WeightSource> open_base(const CheckpointReader& checkpoint, const Recipe& recipe,
                                              const Graph& graph);

// Throws Error(bad_data) that names the checkpoint's base and this one where they are not the same.
void require_same_base(const CheckpointReader& checkpoint, const Recipe& recipe, const WeightSource& base,
                       const Graph& graph);

// The weights of a checkpoint together with the base that it leaves out, checked, in the type in which a run holds it,
// precision.compute.
std::unique_ptr<const WeightSource> whole_weights(const CheckpointReader& checkpoint, const Recipe& recipe,
                                                  const Graph& graph, at::ScalarType compute);

}  // namespace llmtrain
