// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/operators/operators.h"
#include "core/recipe/recipe.h"

namespace llmtrain::test {

// Published models, with every key given: these tests do not depend on the presets of core/recipe.
ModelRecipe gpt2_model(std::int64_t layers, std::int64_t hidden, std::int64_t heads);
ModelRecipe llama2_7b();
ModelRecipe llama3_8b();
ModelRecipe qwen3_600m();
ModelRecipe mixtral_8x7b();   // 8 experts, top 2
ModelRecipe qwen3_30b_a3b();  // 128 narrow experts, top 8
ModelRecipe deepseek_v2_lite();
ModelRecipe deepseek_v3();
ModelRecipe gpt_oss(std::int64_t layers, std::int64_t experts);
ModelRecipe gemma3_27b();
// Layers of linear attention between others.
ModelRecipe qwen3_next_80b();
ModelRecipe nemotron_h_8b();  // without multi-token prediction

// What is counted of one block:
OperatorList operators_of(const Graph& graph, std::size_t block, const PassSetting& setting);
double saved_bytes(const Graph& graph, std::size_t block, const PassSetting& setting);
PassPeak pass_peak(const Graph& graph, std::size_t block, const PassSetting& setting);

// A small model for every combination of the keys that add or remove parameters.
std::vector<ModelRecipe> all_small_models();

}  // namespace llmtrain::test
