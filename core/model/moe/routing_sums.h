// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain {

// What the routing of micro-batches by layers was like: sums over both, of which `passes` is the number. The losses are
// without their coefficients.
struct RoutingSums {
  double passes = 0;
  double balance_loss = 0;   // 1 where routing is even
  double z_loss = 0;         // mean of the squared log-sum-exp of a token's logits
  double dropped_share = 0;  // of the tokens' choices, those beyond an expert's capacity
  double load = 0;           // the most tokens that choose an expert ÷ the mean over experts

  RoutingSums& operator+=(const RoutingSums& other) {
    passes += other.passes;
    balance_loss += other.balance_loss;
    z_loss += other.z_loss;
    dropped_share += other.dropped_share;
    load += other.load;
    return *this;
  }
};

}  // namespace llmtrain
