// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "parallel/engine/generation/generation.h"

namespace llmtrain {

// generate() with GenerateOptions::beams: the most likely texts of each prompt, as many as are asked for, each told
// when the search for it has ended. Beams of several prompts grow together, up to GenerateOptions::batch in all.
void search_beams(LocalModel& model, std::span<const std::vector<std::int64_t>> prompts, const GenerateOptions& options,
                  const TokenListener& listener);

}  // namespace llmtrain
