// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/graph/exchange_method.h"
#include "core/recipe/recipe.h"
#include "parallel/layout/mesh.h"

namespace llmtrain {

// How expert ranks exchange rows, and where the recipe leaves that open, the methods among which a run chooses: one for
// each bucket of micro-batches whose fullest experts get about as many rows from a rank (the dictionary of Hwang et
// al., arXiv 2206.03382).
struct ExchangeMethods {
  ExchangeMethod planned;        // with which a step is priced
  std::int64_t bucket_rows = 1;  // the first bucket has fewer, the second fewer than twice as many, …
  std::vector<std::vector<ExchangeMethod>> of_buckets;  // the most promising one first; none: nothing is open

  bool are_open() const { return !of_buckets.empty(); }
  // The bucket of a micro-batch in which no rank sends more than `rows` rows to one expert.
  std::size_t bucket_of(std::int64_t rows) const;
};

// Without prices: the fewest parts first, and linear first.
ExchangeMethods exchange_methods(const Recipe& recipe, const Mesh& mesh);

// How many of a node's expert ranks exchange rows among themselves first; 1 where the exchange is linear.
std::int64_t relaying_ranks(const Mesh& mesh, AllToAll all_to_all);

}  // namespace llmtrain
