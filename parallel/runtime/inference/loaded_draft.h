// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "parallel/engine/generation/drafts.h"
#include "parallel/engine/local_model.h"
#include "parallel/runtime/draft_request.h"

namespace llmtrain {

// Calls `work` with who guesses what `model` writes, nobody without a request, for so many texts that grow together, of
// up to `capacity` tokens. Collective: of ranks that share the model the one that leads has who guesses. Throws as
// with_loaded_model() does for the model that guesses, and what the work threw.
void with_drafts(const std::optional<DraftRequest>& request, const LocalModel& model, std::int64_t texts,
                 std::int64_t capacity, const std::function<void(const Drafting&)>& work);

}  // namespace llmtrain
