// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/llmtrain/commands.h"
#include "core/recipe/recipe.h"

namespace llmtrain::app {

// The commands of `llmtrain data`.
void add_tokenize(CLI::App& parent, Action& action);
void add_train_tokenizer(CLI::App& parent, Action& action);
void add_inspect_data(CLI::App& parent, Action& action);

// What --tokenizer names: "bytes", a tokenizer.json, or a .model file of SentencePiece. Throws Error(bad_recipe) where
// the name says no kind.
TokenizerRecipe named_tokenizer(const std::string& name);

// --on-bad-line, and what its word means.
void add_on_bad_line(CLI::App& command, std::string& word);
OnBadLine policy_of(const std::string& word);

}  // namespace llmtrain::app
