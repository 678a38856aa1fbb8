// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace llmtrain::app {

// Makes a checkpoint, in a new folder, of a folder of transformers: its weights, and beside them what says how its
// texts are written. With `may_lack_head` the head that predicts tokens is zeros where an encoder's folder has none.
// Warns where its tokenizer is not supported. Throws Error(bad_data), Error(missing_input), Error(bad_recipe) for a
// model that this version does not have, Error(cannot_write).
void import_huggingface(const std::filesystem::path& folder, const std::filesystem::path& destination,
                        bool may_lack_head = false);

}  // namespace llmtrain::app
