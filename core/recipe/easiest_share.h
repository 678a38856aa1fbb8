// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/recipe/recipe.h"

namespace llmtrain {

inline constexpr std::int64_t all_percent = 100;

// Percent of each source's training samples, the easiest, that a step (from 0) draws from with
// data.curriculum.vocabulary_rarity: with t = step + 1, as in DeepSpeed, T = steps and r = degree
//   ⌊start + (100 − start) · (t / T)^(1/r)⌋ at t < T; 100 from T on, and without that key. Never falls as steps go by.
std::int64_t easiest_percent(const CurriculumRecipe& curriculum, std::int64_t step);

}  // namespace llmtrain
