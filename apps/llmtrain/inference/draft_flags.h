// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "apps/llmtrain/checkpoint/checkpoint_source.h"
#include "core/recipe/recipe.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain::app {

// What a user says of who guesses at the tokens that follow.
struct DraftFlags {
  std::optional<std::string> source;
  bool looks_up = false;
  std::int64_t tokens = DraftRequest{}.tokens;
};

// The flags outlive the parsing.
void add_draft_flags(CLI::App& command, DraftFlags& flags);

// Who guesses for a model, and the guessing model's checkpoint, which stays readable as long as this exists.
struct OpenedDraft {
  std::optional<CheckpointSource> source;
  std::optional<DraftRequest> request;  // none where no flag asks for it
};

// Throws as open_source() does, and Error(bad_recipe) where the model that guesses is no decoder or does not have the
// tokens of `recipe`, the model that writes.
OpenedDraft open_draft(const DraftFlags& flags, const Recipe& recipe);

// Throws Error(bad_recipe) where a request with a draft asks for texts that cannot be guessed at.
void require_drafts_apply(const SampleRequest& request);
void require_drafts_apply(const ServeRequest& request);

}  // namespace llmtrain::app
