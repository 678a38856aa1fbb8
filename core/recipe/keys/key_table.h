// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/keys/key_visitor.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// Far above any model in use.
inline constexpr IntegerRange layer_range{1, 10'000};
// And low enough that products of two sizes stay far within 64 bits.
inline constexpr IntegerRange width_range{1, 1 << 20};
inline constexpr IntegerRange head_range{1, 1 << 16};
inline constexpr IntegerRange sequence_range{1, 1 << 24};
inline constexpr IntegerRange ffn_range{1, 1 << 24};
inline constexpr std::int64_t most_steps = 1'000'000'000'000;

// A text that any section may have besides its keys, for whoever reads the recipe; llmtrain does not.
inline constexpr std::string_view section_comment = "description";

// The key table: every key of a recipe, once, with its member, type, range, default and help. A key follows the keys
// that its default depends on, but for those of set_default_order() (core/recipe/pipeline_order.h).
void describe_keys(KeyVisitor& keys, Recipe& recipe);

// The JSON pointers of all keys and sections, in the order of the table; entries of a list as "/data/train/0/path".
std::vector<std::string> key_pointers();

// The table's parts.
void describe_model(KeyVisitor& keys, ModelRecipe& model);
void describe_experts(KeyVisitor& keys, MixtureOfExpertsRecipe& moe, const ModelRecipe& model);
void describe_sliding_window(KeyVisitor& keys, SlidingWindowRecipe& window, const ModelRecipe& model);
void describe_layer_variants(KeyVisitor& keys, ModelRecipe& model);  // which are planned
void describe_data(KeyVisitor& keys, DataRecipe& data);
void describe_denoising(KeyVisitor& keys, DenoisingRecipe& denoising);
void describe_spans(KeyVisitor& keys, SpansRecipe& spans);
void describe_images(KeyVisitor& keys, ImagesRecipe& images);
void describe_length_schedule(KeyVisitor& keys, LengthScheduleRecipe& schedule);
void describe_batch(KeyVisitor& keys, BatchRecipe& batch, const ModelRecipe& model);
void describe_training(KeyVisitor& keys, TrainingRecipe& training);
void describe_layout(KeyVisitor& keys, Recipe& recipe);   // precision, parallel, pipeline, memory, kernels
void describe_running(KeyVisitor& keys, Recipe& recipe);  // cluster, launch, checkpoint, log
void describe_slurm(KeyVisitor& keys, SlurmRecipe& slurm);

}  // namespace llmtrain
