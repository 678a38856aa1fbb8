// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/recipe/recipe.h"

namespace llmtrain {

// Who guesses at the tokens that follow (parallel/engine/generation/drafts.h). Texts stay what they are.
struct DraftRequest {
  struct Model {
    Recipe recipe;
    std::string checkpoint;  // folder
  };
  std::optional<Model> model{};  // with the tokens of the one that writes; none: what followed the same tokens before
  std::int64_t tokens = 4;       // that are guessed at once
};

}  // namespace llmtrain
