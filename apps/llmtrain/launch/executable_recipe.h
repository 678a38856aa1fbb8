// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/recipe/recipe.h"

namespace llmtrain::app {

// Throws Error(bad_recipe) with one line for each key that this version cannot execute; `name` names the recipe in it.
void require_executable(const Recipe& recipe, const std::string& name);

// Throws Error(bad_recipe) where the model is an encoder or has one, and continues no text; `command` does.
void require_decoder(const Recipe& recipe, const std::string& name, const std::string& command);

// The same for an encoder alone: an encoder-decoder writes, too, though it continues nothing.
void require_writer(const Recipe& recipe, const std::string& name, const std::string& command);

// Why `run` refuses what is planned, a line for each key of the recipe and for the rows of `graph` that it would not
// train: for plans of llmtrain. None for those of another program.
std::vector<std::string> not_run_as_planned(const Recipe& recipe, const Graph& graph);

// Throws Error(bad_recipe) where the data lack what blocks of the model read of them.
void require_fields(const Graph& graph, const DataRecipe& data, const std::string& name);

// Throws Error(bad_recipe) where the model has more tokens than the one that its first weights are from, and would not
// train their rows. An origin that cannot be read is reported by what reads the weights.
void require_trained_tokens(const Graph& graph, const Recipe& recipe, const std::string& name);

// Throws Error(bad_recipe) where the recipe names no data to train on.
void require_training_data(const Recipe& recipe, const std::string& name);

}  // namespace llmtrain::app
