// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/state_transfers.h"

#include <utility>

namespace llmtrain {
namespace {

using When = StateTransfer::When;

struct Names {
  std::string_view maxima, gradients, shards, weights;
};
constexpr Names dense_names = {"FP8 maxima of states", "gradients", "gradient shards", "weights"};
constexpr Names expert_names = {"FP8 maxima of expert states", "expert gradients", "expert gradient shards",
                                "expert weights"};

// Bytes of a stage's gradients, each tensor whole, and of what ranks agree on for their scales.
struct Gradients {
  double bytes = 0;
  double maxima = 0;  // bytes
  double tensors = 0;
};
struct Moved {
  Gradients gradients, last_gradients;
  double weights = 0;         // bytes
  double weight_tensors = 0;  // that these are of
};

// Bytes of what data ranks agree on for an FP8 group's scales. All scale a tensor's gradients alike. Where they share
// the sums, they also count together those that saturate. They agree on the weights' maximum where they share the
// weights, and with small moments, whose maxima are of the values after the update, where they share the update.
double maxima_bytes(const StateGroup& group) {
  if (!group.is_fp8) return 0;
  const int moments = group.types.scaled_moments();
  const double states = moments > 0 ? (group.zero_stage > 0 ? 1 + moments : 0) : (group.zero_stage == 3 ? 1 : 0);
  const double numbers = 1 + (group.zero_stage > 0 ? 1 : 0) + states;
  return numbers * element_bytes(ElementType::float32) * static_cast<double>(group.parameters.size());
}

class Writer {
 public:
  Writer(const PricedLayout& priced, double blocks) : priced_(priced), blocks_(blocks) {}

  void add(const Moved& moved, const StateRanks& ranks, const Names& names) {
    add_gradients(When::reduction, moved.gradients, ranks, names);
    add_gradients(When::last_reduction, moved.last_gradients, ranks, names);
    // Without sharding every rank updates all weights itself: none move.
    if (ranks.zero_stage > 0)
      add(When::gather, Collective::all_gather, names.weights, ranks.gathering, moved.weights,
          sharding_seconds(moved.weights, moved.weight_tensors, ranks));
  }
  std::vector<StateTransfer> take() { return std::move(transfers_); }

 private:
  void add(When when, Collective collective, std::string_view tensors, const RankGroup& ranks, double bytes,
           double seconds) {
    if (ranks.ranks > 1 && bytes > 0)
      transfers_.push_back(
          {when, collective, tensors, ranks, bytes, seconds, priced_.collectives.wires(collective, bytes, ranks)});
  }

  void add_gradients(When when, const Gradients& gradients, const StateRanks& ranks, const Names& names) {
    const CollectiveCost& collectives = priced_.collectives;
    const double bytes = gradients.bytes;
    add(when, Collective::all_reduce, names.maxima, ranks.data, gradients.maxima,
        collectives.all_reduce(gradients.maxima, ranks.data));
    const bool is_whole = ranks.zero_stage == 0 || (ranks.zero_stage == 1 && priced_.program().data.all_reduces);
    if (is_whole)
      return add(when, Collective::all_reduce, names.gradients, ranks.data, bytes,
                 collectives.all_reduce(bytes, ranks.data));
    add(when, Collective::reduce_scatter, names.gradients, ranks.gathering, bytes,
        sharding_seconds(bytes, gradients.tensors, ranks));
    // With fewer shards than data ranks the shards' sums are added up across the replicas.
    const double shard = bytes / static_cast<double>(ranks.gathering.ranks);
    add(when, Collective::all_reduce, names.shards, ranks.replicas, shard,
        collectives.all_reduce(shard, ranks.replicas));
  }

  // How long one gather of sharded weights takes, or one scatter of gradients: ZeRO-3 moves them in one message per
  // block during passes, the other stages at once, or as the program says, by tensors.
  double sharding_seconds(double bytes, double tensors, const StateRanks& ranks) const {
    const CollectiveCost& collectives = priced_.collectives;
    if (ranks.zero_stage == 3) return collectives.gather_weights(bytes, blocks_, ranks.gathering);
    const double messages = priced_.program().data.tensor_messages * tensors;
    return collectives.all_gather(bytes, ranks.gathering) + messages * collectives.ring_latency(ranks.gathering);
  }

  const PricedLayout& priced_;
  double blocks_;
  std::vector<StateTransfer> transfers_;
};

}  // namespace

std::vector<StateTransfer> state_transfers(const PricedLayout& priced, std::size_t stage) {
  const Partition& partition = priced.partition;
  // Where a step has one reduction it is the last one, and all gradients move together.
  const bool reduces_once = partition.shape.reduction_group() == partition.shape.micro_batches;
  const double reduced = priced.program().data.reduced_bytes;
  Moved dense, experts;
  for (const StateGroup& group : partition.groups[stage]) {
    const bool is_expert = group.kind == StateGroup::Kind::experts;
    Moved& moved = is_expert ? experts : dense;
    const auto whole = static_cast<double>(group.whole());
    const bool is_last = !reduces_once && group.is_reduced_last(partition.shape);
    Gradients& gradients = is_last ? moved.last_gradients : moved.gradients;
    gradients.bytes += whole * (reduced > 0 ? reduced : group.types.gradient_bytes());
    gradients.maxima += maxima_bytes(group);
    const auto tensors = static_cast<double>(group.parameters.size());
    gradients.tensors += tensors;
    // Frozen weights that are not sharded have no owner from whom others would get them.
    if (group.is_frozen && group.zero_stage != 3) continue;
    moved.weights += whole * group.types.weight_bytes();
    moved.weight_tensors += tensors;
  }
  Writer writer(priced, static_cast<double>(partition.stages[stage].blocks.size()));
  writer.add(dense, priced.dense_ranks, dense_names);
  writer.add(experts, priced.expert_ranks, expert_names);
  return writer.take();
}

}  // namespace llmtrain
