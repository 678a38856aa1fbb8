// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/graph/operators/operator_writer.h"

namespace llmtrain {

constexpr double index_bytes = 8;  // of a row's number

// Tokens that this rank routes: of those that tensor ranks share, each has its own part, so that none is sent twice.
double routed_tokens(const OperatorWriter& writer);

// What this rank's tokens choose, in rows: those that it sends to the experts (`own`), those that arrive at its
// experts, and those that its experts compute (`places`), with the tokens of all ranks that split them. core/model's
// kernels compute rows of tokens alone, other programs' also the empty places of an expert's capacity, of which each
// rank has a part. Of the ranks that share the experts, all wait for the busiest, which this is.
struct RoutedRows {
  double own = 0, arriving = 0, places = 0;
  RoutedLoad load;  // how all ranks' rows fall on them
};
RoutedRows routed_rows(const OperatorWriter& writer, const MixtureOfExpertsRecipe& moe);

// Whether rows go to the experts through other ranks, where `inside` expert ranks share a node.
bool relays_rows(const OperatorWriter& writer, std::int64_t inside);
// Rows of its node that the rank with the most of them takes to the others, where `inside` ranks share one.
double relayed_rows(const OperatorWriter& writer, const RoutedRows& rows, std::int64_t inside);
// Elements that the planned exchange reads and writes to put rows into the order in which they are sent.
double relayed_copies(const OperatorWriter& writer, const RoutedRows& rows);

// Adds the collectives that take rows to the experts or back, in both passes: `entering` is the direction in which they
// go to the experts.
void exchange_tokens(const OperatorWriter& writer, const MixtureOfExpertsRecipe& moe, Operator& item,
                     Direction entering, const RoutedRows& rows);
// And that of their numbers, once for both passes.
void exchange_counts(const OperatorWriter& writer, const MixtureOfExpertsRecipe& moe, Operator& item);

}  // namespace llmtrain
