// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "core/base/collective.h"
#include "core/graph/operators/operators.h"
#include "parallel/plan/cost/priced_layout.h"
#include "parallel/plan/simulator/step_costs.h"

namespace llmtrain {

// The ranks of a collective inside a block, and the purpose under which it is counted.
struct AxisGroup {
  RankGroup ranks;
  Purpose purpose = Purpose::control;
};
AxisGroup group_of(const PricedLayout& priced, RankAxis axis);

// Seconds of one collective inside a block, without overlap.
double exchange_seconds(const PricedLayout& priced, const Exchange& exchange);

// How long the exchange occupies each of the rank's wires.
WireSeconds exchange_wires(const PricedLayout& priced, const Exchange& exchange);

// The fraction of a collective's time for which its pass waits; it is one of the operators of `block`.
double shown_share(const PricedLayout& priced, std::span<const Operator> block, const Exchange& exchange);

// A value on its way from one stage to the next, one message: each tensor rank sends its part of the tokens, and
// without sequence parallelism the receivers gather the whole inside the tensor group (Narayanan et al., arXiv
// 2104.04473, section 4.1).
struct Message {
  double sent_bytes = 0;   // per tensor rank
  double whole_bytes = 0;  // result of the receivers' gather; 0 where they gather nothing
};
Message message_of(const PricedLayout& priced, std::size_t value);

// Seconds of one transfer of these values between these pipeline ranks, including the receivers' gathers.
double transfer_seconds(const PricedLayout& priced, std::span<const std::size_t> values, const RankGroup& neighbours);
// How long sending them occupies the sender's wires; the gathers are counted with them, because every rank but the
// first receives as well.
WireSeconds transfer_wires(const PricedLayout& priced, std::span<const std::size_t> values,
                           const RankGroup& neighbours);

// Seconds of an operator's matrix products for one micro-batch, forward and backward, with the casts of FP8.
double product_seconds(const PricedLayout& priced, const Operator& item);

// FLOPs of fused attention, which skips the half of the scores that a causal mask hides. Its backward computes five
// products where the forward computes two (Dao, arXiv 2307.08691): three in the size of a key and two in that of a
// value. Of a window it computes the blocks of keys that hold its ends whole.
struct FusedAttentionFlops {
  double forward = 0;
  double backward = 0;
};
FusedAttentionFlops fused_attention_flops(const Operator& item);
AttentionSizes attention_sizes(const Operator& item);

// Bytes of each of the logits that the loss is computed from: most frameworks take fp32 whatever the compute type, for
// the range of the exponentials.
double logit_bytes(const PricedLayout& priced);

// Bytes of a pass over memory, of which caches and fusion may save some (TrafficFacts).
double moved_bytes(const PricedLayout& priced, const Movement& movement);

// Cost of one block for one micro-batch, forward and backward, with its collectives and its recompute.
StageCost block_cost(const PricedLayout& priced, const OperatorList& operators, Recompute recompute);

}  // namespace llmtrain
