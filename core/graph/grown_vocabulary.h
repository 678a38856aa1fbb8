// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/graph/graph.h"

namespace llmtrain {

// A model may have more tokens than the one that its first weights are from: what has a row for each token gets more
// rows then.

// How many rows parameters have in the same model with `tokens` tokens, by name: those that have another number there.
std::map<std::string, std::int64_t> rows_with_fewer_tokens(const Graph& graph, std::int64_t tokens);

// Throws Error(bad_recipe) where the model has more tokens than the one of the file `source` and the rows of the new
// ones would stay as they begin, because their parameter is frozen.
void require_trained_rows(const Graph& graph, std::int64_t tokens, const std::string& source);

}  // namespace llmtrain
