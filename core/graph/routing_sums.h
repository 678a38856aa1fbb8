// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

namespace llmtrain {

// What the routing of micro-batches by layers was like: sums over both, of which `passes` is the number. The losses are
// without their coefficients.
struct RoutingSums {
  double passes = 0;
  double balance_loss = 0;   // GShard's: 1 where routing is even; load-importance: 0
  double z_loss = 0;         // mean of the squared log-sum-exp of a token's logits
  double dropped_share = 0;  // of the tokens' choices, those beyond an expert's capacity
  double load = 0;           // the most tokens that choose an expert ÷ the mean over experts
  // The entropy of a token's probabilities ÷ that of equal ones, a mean over tokens: 1 where a router is undecided, 0
  // where certain.
  double entropy = 0;
};

// The same numbers one after another, as routers find them and ranks exchange them.
using RoutingValues = std::array<double, sizeof(RoutingSums) / sizeof(double)>;
constexpr RoutingSums sums_of(const RoutingValues& values) { return std::bit_cast<RoutingSums>(values); }

// How many tokens chose each expert of each layer in a step, by layer; a dense layer has no counts.
using RoutingCounts = std::vector<std::vector<double>>;

// The experts that a token has gone to: of each layer that has some, in the model's order, as many as its router
// chooses, best first.
using TokenExperts = std::vector<std::vector<std::int64_t>>;

}  // namespace llmtrain
