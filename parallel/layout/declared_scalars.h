// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/graph/loss_term.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/scalar_table.h"

namespace llmtrain {

// The names of a step's scalars.
namespace scalar_names {

// In every step: the sum of the rows' losses in each term of rows, the parts of the gradients' squared norm, whether a
// rank was asked to stop, and how long each computed, in seconds.
std::string loss(const LossTerm& term);
constexpr std::string_view gradient_squares = "gradient squares", stop_request = "stop request",
                           own_seconds = "own seconds";
// With experts: RoutingValues.
constexpr std::string_view routing = "routing";
// With log.routing: how many tokens chose each of the layer's experts.
std::string chosen_experts(std::int64_t layer);
// With FP8 gradients: how many there are, and how many of their sums saturated.
constexpr std::string_view fp8_gradients = "FP8 gradients", saturated_gradients = "saturated gradients";
// Where the exchange of experts' rows is open: for each of its buckets how often rows were exchanged, and how long that
// took in seconds.
constexpr std::string_view expert_exchanges = "expert exchanges";
// Where the split of experts is open: how long the step took, in seconds.
constexpr std::string_view split_seconds = "split seconds";
// With delayed scaling: of each FP8 product the largest magnitudes of its operands.
constexpr std::string_view fp8_magnitudes = "FP8 magnitudes";
// Where FP8 gradients may fall back: of each matrix that has them the share that saturated.
constexpr std::string_view saturated_shares = "saturated shares";

}  // namespace scalar_names

// What every rank sends to all others once per step.
ScalarTable declared_scalars(const Partition& partition);

}  // namespace llmtrain
