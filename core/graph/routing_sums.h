// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>

namespace llmtrain {

// What the routing of micro-batches by layers was like: sums over both, of which `passes` is the number. The losses are
// without their coefficients.
struct RoutingSums {
  double passes = 0;
  double balance_loss = 0;   // 1 where routing is even
  double z_loss = 0;         // mean of the squared log-sum-exp of a token's logits
  double dropped_share = 0;  // of the tokens' choices, those beyond an expert's capacity
  double load = 0;           // the most tokens that choose an expert ÷ the mean over experts
};

// The same numbers one after another, as ranks exchange them.
using RoutingValues = std::array<double, sizeof(RoutingSums) / sizeof(double)>;
constexpr RoutingValues values_of(const RoutingSums& sums) { return std::bit_cast<RoutingValues>(sums); }
constexpr RoutingSums sums_of(const RoutingValues& values) { return std::bit_cast<RoutingSums>(values); }

constexpr RoutingSums& operator+=(RoutingSums& sums, const RoutingSums& more) {
  RoutingValues values = values_of(sums);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += values_of(more)[i];
  return sums = sums_of(values);
}

}  // namespace llmtrain
