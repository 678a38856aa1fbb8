// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/data/samples/dataset.h"
#include "core/metrics/class_counts.h"
#include "core/recipe/training_recipe.h"
#include "parallel/engine/inference.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

// Lets an encoder-decoder write targets of the data's first pairs, which have been opened with keeps_targets: as many
// as `generation` says, and at most `most`. Each source is what an evaluation's encoder reads of it; a target has at
// most the tokens of data.pairs.target_length. Returns how well the targets agree with those that the data have
// (core/metrics/text_counts.h), and nothing where the watch of any rank has stopped it. Ranks that each hold the whole
// model share the pairs, others write them together, at every layout that Decoder takes. Collective: all ranks call it
// together and get the same result; blocks.
std::optional<std::vector<Figure>> written_target_figures(LocalModel& model, const Dataset& data, std::int64_t most,
                                                          const GenerationRecipe& generation,
                                                          const EvaluationWatch& watch);

}  // namespace llmtrain
