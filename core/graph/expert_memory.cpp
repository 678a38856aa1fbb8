// SPDX-License-Identifier: Apache-2.0
#include "core/graph/expert_memory.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/graph/exchange_method.h"

namespace llmtrain {
namespace {

// Without parts.
WorkingBytes hold_rows(const OperatorWriter& writer, const RowBytes& rows, bool relays) {
  const auto& [own, places, hidden, kept_activated] = rows;
  if (!writer.is_cpu()) return {2 * places, 2 * places};
  // Results in the order of the experts and in that of the ranks, when there is no kept copy of the latter yet; the
  // layer's output is made after that.
  const double output = writer.shape().element * writer.shape().residual();
  WorkingBytes working;
  working.forward = std::max(0.0, 2 * places - own - output);
  // The gradient of the kept output takes the place of that output, beside the experts' input, which is copied again;
  // one that comes from other ranks is kept, but the gradient, too, is there in two orders before the experts run.
  working.backward = exchanges_rows(writer) ? std::max(2 * places - own - hidden, places - own) : own;
  if (!relays) return working;
  // Beside where they come from and go to: in the order that they are sent in, and those that others send through here.
  return {std::max(working.forward, 2 * own - output), std::max(working.backward, 3 * own - hidden)};
}

// In parts, of which all are on their way at first.
WorkingBytes hold_parts(const OperatorWriter& writer, const RowBytes& rows, bool relays, double parts) {
  const auto& [own, places, hidden, kept_activated] = rows;
  const double kept = (hidden + kept_activated) / parts;
  // A part's results in both orders, and those of the part before that are leaving; what was sent is there until the
  // last part has arrived, which comes before that part's tensors are kept.
  const double output = writer.shape().element * writer.shape().residual();
  const double sent = parts > 2 ? std::max(0.0, own - kept) : 0;
  const double relayed = relays ? own : 0;
  WorkingBytes working;
  working.forward = std::max(0.0, (3 * places + relayed) / parts + sent - output);
  // The first part has arrived, in both orders, or its networks run; then the second one, while the gradients of the
  // first leave into a tensor of their own.
  const double first = places + std::max(places, hidden) / parts;
  const double second = places + own - std::min(kept, (places + kept_activated) / parts);
  working.backward = std::max({own, first, second, places + 2 * relayed}) - hidden;
  return working;
}

WorkingBytes hold(const OperatorWriter& writer, const RowBytes& rows, bool relays, std::int64_t parts) {
  if (!writer.is_cpu() || parts == 1) return hold_rows(writer, rows, relays);
  return hold_parts(writer, rows, relays, static_cast<double>(parts));
}

}  // namespace

bool exchanges_rows(const OperatorWriter& writer) {
  return writer.setting().shards.expert > 1 || writer.setting().shards.expert_tensor > 1;
}

bool relays_rows(const OperatorWriter& writer) {
  const std::int64_t inside = writer.setting().expert_node_ranks;
  return inside > 1 && inside < writer.setting().shards.expert;
}

WorkingBytes working_bytes(const OperatorWriter& writer, const RowBytes& rows) {
  const PassSetting& setting = writer.setting();
  std::vector<std::int64_t> parts{setting.expert_overlap};
  if (setting.tries_overlap) parts.assign(automatic_parts.begin(), automatic_parts.end());
  const bool relays = relays_rows(writer);
  WorkingBytes most = hold(writer, rows, relays, setting.expert_overlap);
  for (const std::int64_t number : parts) {
    for (const bool relayed : {relays, setting.tries_relays}) {
      const WorkingBytes working = hold(writer, rows, relayed, number);
      most.forward = std::max(most.forward, working.forward);
      most.backward = std::max(most.backward, working.backward);
    }
  }
  return most;
}

}  // namespace llmtrain
