// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/llmtrain/launch/scratch_folder.h"
#include "core/checkpoint/checkpoint.h"
#include "core/recipe/recipe.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain::app {

// A checkpoint that the command line names, and the recipe that made it. It stays readable as long as this exists, also
// beside a run that removes its older checkpoints.
struct CheckpointSource {
  Recipe recipe;
  CheckpointReader reader;
  std::shared_ptr<const ScratchFolder> imported{};  // where the checkpoint is, made of a folder of transformers

  const std::filesystem::path& checkpoint() const { return reader.folder(); }
};

struct FoundCheckpoint {
  CheckpointReader reader;
  std::vector<std::string> damaged;  // newer or other ones that were passed over, each with the reason
};

// A checkpoint's folder, or the newest intact checkpoint of a run directory or of its checkpoints folder. Throws
// Error(missing_input) when there is none, Error(bad_data) when `source` is something else.
FoundCheckpoint find_source(const std::string& source);

// The same with the recipe of the checkpoint's manifest, changed by `overrides`, without what only training asks of a
// device; also accepts a recipe's file, meaning its log.directory, and "hf:" with a folder of transformers, of which a
// checkpoint is made in TMPDIR that goes with the result, of which with `may_lack_head` nobody reads the tokens' head
// (import_huggingface()). Damaged checkpoints are logged as warnings. Throws Error.
CheckpointSource open_source(const std::string& source, const std::vector<Override>& overrides,
                             bool may_lack_head = false);

// Throws Error(bad_recipe) for a model that was trained on ids whose tokenizer its recipe does not name, as of token
// files made elsewhere: its texts would be read and written as bytes. `overrides` that say the tokenizer are believed.
void require_tokenizer(const CheckpointSource& source, const std::vector<Override>& overrides);

// Logs each one as a warning.
void warn_of_damaged(const std::vector<std::string>& damaged);

}  // namespace llmtrain::app
