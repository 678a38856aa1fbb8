// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operators/expert_memory.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/graph/exchange_method.h"

namespace llmtrain {
namespace {

// Bytes of all parts of a rank's rows on their way through the experts.
struct RowBytes {
  double own = 0, arriving = 0, places = 0;
  double relayed = 0;  // of others and for others; 0: rows go directly
  NetworkBytes networks;
};

// On their way to the experts through others, in the backward, where they are gradients in the place of the results: at
// first in the order in which they are sent, beside where they come from; then what a part of others' becomes in the
// order in which it goes on.
double entering_bytes(const RowBytes& rows, double parts) {
  return rows.arriving + rows.relayed + std::max(rows.own, (rows.relayed - rows.own) / parts);
}

// Without parts.
WorkingBytes hold_rows(const OperatorWriter& writer, const RowBytes& rows) {
  const auto& [own, arriving, places, relayed, networks] = rows;
  const double hidden = networks.hidden;
  if (!writer.is_own()) return {2 * places, 2 * places};
  // Results in the order of the experts and in that of the ranks, when there is no kept copy of the latter yet; the
  // layer's output is made after that.
  const double output = writer.shape().element * writer.shape().residual();
  WorkingBytes working;
  working.forward = std::max(0.0, 2 * places - own - output);
  // The gradient of the kept output takes the place of that output, beside the experts' input, which is copied again;
  // one that comes from other ranks is kept, but the gradient, too, is there in two orders before the experts run.
  working.backward = exchanges_rows(writer) ? std::max(2 * places - own - hidden, places - own) : own;
  if (relayed == 0) return working;
  // Those that others send through here, and what they arrive beside: on the way back the results that leave; they
  // themselves in the order in which they go on; own results in the order in which they come.
  const double back = relayed + std::max({arriving, relayed, own}) - output;
  return {std::max(working.forward, back), std::max(working.backward, entering_bytes(rows, 1) - hidden)};
}

// In parts, of which all are on their way at first.
WorkingBytes hold_parts(const OperatorWriter& writer, const RowBytes& rows, double parts) {
  const auto& [own, arriving, places, relayed, networks] = rows;
  const auto& [hidden, kept_activated] = networks;
  const double kept = (hidden + kept_activated) / parts;
  // A part's results in both orders, and those of the part before that are leaving; what was sent is there until the
  // last part has arrived, which comes before that part's tensors are kept.
  const double output = writer.shape().element * writer.shape().residual();
  const double sent = parts > 2 ? std::max(0.0, own - kept) : 0;
  WorkingBytes working;
  working.forward = std::max(0.0, (3 * places + relayed) / parts + sent - output);
  // The first part has arrived, in both orders, or its networks run; then the second one, while the gradients of the
  // first leave into a tensor of their own.
  const double first = places + std::max(places, hidden) / parts;
  const double second = places + own - std::min(kept, (places + kept_activated) / parts);
  working.backward = std::max({own, first, second, relayed > 0 ? entering_bytes(rows, parts) : 0}) - hidden;
  return working;
}

WorkingBytes hold(const OperatorWriter& writer, const RowBytes& rows, std::int64_t parts) {
  if (!writer.is_own() || parts == 1) return hold_rows(writer, rows);
  return hold_parts(writer, rows, static_cast<double>(parts));
}

}  // namespace

bool exchanges_rows(const OperatorWriter& writer) {
  return writer.setting().shards.expert > 1 || writer.setting().shards.expert_tensor > 1;
}

WorkingBytes working_bytes(const OperatorWriter& writer, const RoutedRows& rows, const NetworkBytes& networks) {
  const ExchangeSetting& exchange = writer.setting().exchange;
  const double row_bytes = writer.shape().element * writer.shape().hidden;
  const auto bytes = [&](std::int64_t inside) {
    return RowBytes{row_bytes * rows.own, row_bytes * rows.arriving, row_bytes * rows.places,
                    row_bytes * relayed_rows(writer, rows, inside), networks};
  };
  std::vector<std::int64_t> parts{exchange.parts};
  if (exchange.tries_parts) parts.assign(automatic_parts.begin(), automatic_parts.end());
  WorkingBytes most = hold(writer, bytes(exchange.node_ranks), exchange.parts);
  for (const std::int64_t number : parts) {
    for (const std::int64_t inside : {exchange.node_ranks, exchange.tried_node_ranks}) {
      const WorkingBytes working = hold(writer, bytes(inside), number);
      most.forward = std::max(most.forward, working.forward);
      most.backward = std::max(most.backward, working.backward);
    }
  }
  return most;
}

}  // namespace llmtrain
