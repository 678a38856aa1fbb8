// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "parallel/engine/generation/drafts.h"
#include "parallel/runtime/draft_request.h"

namespace llmtrain {

// Calls `work` with who guesses, nobody without a request, for so many texts that grow together, of up to `capacity`
// tokens. Throws as with_loaded_model() does for the model that guesses, and what the work threw.
void with_drafts(const std::optional<DraftRequest>& request, std::int64_t texts, std::int64_t capacity,
                 const std::function<void(const Drafting&)>& work);

}  // namespace llmtrain
