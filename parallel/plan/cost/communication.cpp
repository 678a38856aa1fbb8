// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "core/graph/graph.h"
#include "parallel/layout/layout.h"
#include "parallel/plan/cost/operator_cost.h"
#include "parallel/plan/cost/state_cost.h"
#include "parallel/plan/cost/step_cost_model.h"

namespace llmtrain {
namespace {

// A collective inside blocks, and how often each pipeline rank takes part in it per step.
struct CountedExchange {
  Exchange exchange;
  std::vector<double> times;

  // Exchanges that differ only in direction or exposure share one row of the table.
  auto kind() const {
    return std::tie(exchange.axis, exchange.tensors, exchange.collective, exchange.bytes, exchange.compression);
  }
};

// Counts the collectives inside the blocks of all stages: layers first, so that what they exchange leads the table.
class ExchangeCount {
 public:
  explicit ExchangeCount(const CostContext& context) : context_(context), lists_(*context.partition.graph) {
    for (const bool of_layers : {true, false}) count_blocks(of_layers);
    // By axis, then in the order in which the model first uses the tensors.
    std::ranges::stable_sort(counted_, {}, [this](const CountedExchange& counted) {
      const Exchange& exchange = counted.exchange;
      return std::tuple(exchange.axis, place_of(exchange.tensors), exchange.collective);
    });
  }

  const std::vector<CountedExchange>& counted() const { return counted_; }

 private:
  void count_blocks(bool of_layers) {
    const Partition& partition = context_.partition;
    const Graph& graph = *partition.graph;
    for (std::size_t stage = 0; stage < partition.stages.size(); ++stage) {
      for (const std::size_t block : partition.stages[stage].blocks) {
        if ((graph.blocks[block].kind == BlockKind::layer) != of_layers) continue;
        // Layers are alike: their operators are listed once and counted for every layer.
        const auto& operators = lists_.of(block, [&] { return block_operators(graph, block, context_.setting); });
        for (const Operator& item : operators)
          for (const Exchange& exchange : item.exchanges) count(partition.rank_of(stage), item, exchange);
      }
    }
  }

  // Full recompute repeats the forward pass including its collectives; selective recompute repeats none.
  void count(std::size_t rank, const Operator& item, const Exchange& exchange) {
    const Recompute recompute = context_.setting.recompute;
    const bool is_repeated_here =
        exchange.direction == Direction::forward && recompute == Recompute::full && is_repeated(item, recompute);
    CountedExchange wanted{exchange, std::vector<double>(static_cast<std::size_t>(context_.mesh().pipeline), 0)};
    auto place = std::find_if(counted_.begin(), counted_.end(),
                              [&](const CountedExchange& known) { return known.kind() == wanted.kind(); });
    if (place == counted_.end()) place = counted_.insert(place, std::move(wanted));
    place->times[rank] += context_.partition.shape.micro_batches * (is_repeated_here ? 2 : 1);
    if (std::find(names_.begin(), names_.end(), exchange.tensors) == names_.end()) names_.push_back(exchange.tensors);
  }

  std::ptrdiff_t place_of(const std::string& tensors) const {
    return std::find(names_.begin(), names_.end(), tensors) - names_.begin();
  }

  const CostContext& context_;
  BlockCache<OperatorList> lists_;
  std::vector<CountedExchange> counted_;
  std::vector<std::string> names_;
};

// Builds the communication table row by row.
struct Table {
  const CostContext& context;
  std::vector<CommunicationEntry> entries{};

  // `bytes` of whole tensors per step, and the time of moving them: by default that of one collective over all of the
  // bytes. Leaves out what moves nothing.
  void add(Collective collective, Purpose purpose, std::string tensors, const RankGroup& group, double bytes,
           std::optional<double> seconds = std::nullopt) {
    const double sent = ring_bytes(collective, group.ranks, bytes);
    if (group.ranks <= 1 || sent <= 0) return;
    if (!seconds) seconds = context.collectives.seconds(collective, bytes, group);
    entries.push_back({collective, purpose, std::move(tensors), group.ranks, sent, *seconds});
  }
  void add(const CountedExchange& counted) {
    const Exchange& exchange = counted.exchange;
    const AxisGroup group = group_of(context, exchange.axis);
    const double times = std::ranges::max(counted.times);
    add(exchange.collective, group.purpose, exchange.tensors, group.ranks,
        times * (exchange.bytes / exchange.compression), times * exchange_seconds(context, exchange));
  }
};

// How often each stage's operation occurs in its rank's schedule.
std::vector<double> count_by_stage(const Schedule& schedule, Operation operation) {
  std::vector<double> counts(static_cast<std::size_t>(schedule.shape.stages()), 0);
  for (const RankSchedule& rank : schedule.ranks)
    for (const Instruction& instruction : rank.instructions)
      if (instruction.operation == operation) ++counts[static_cast<std::size_t>(instruction.stage)];
  return counts;
}

// The states that each pipeline rank moves in a step. What is reduced last is reduced once.
std::vector<StateTraffic> state_traffic(const Partition& partition, const Schedule& schedule) {
  const std::vector<double> reductions = count_by_stage(schedule, Operation::reduce_gradients);
  const std::vector<double> gathers = count_by_stage(schedule, Operation::gather_weights);
  std::vector<StateTraffic> ranks(static_cast<std::size_t>(partition.mesh.pipeline));
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage) {
    ranks[partition.rank_of(stage)].add_blocks(partition.stages[stage].blocks.size(), reductions[stage],
                                               gathers[stage]);
    for (const StateGroup& group : partition.groups[stage]) {
      const bool once = group.is_reduced_last(partition.zero_stage());
      const double times = once ? std::min(1.0, reductions[stage]) : reductions[stage];
      ranks[partition.rank_of(stage)].add(group, times, gathers[stage]);
    }
  }
  return ranks;
}

// ZeRO-3 moves gradients and weights block by block during passes, the other stages once after the step.
void add_gradients(const CostContext& context, const StateRanks& ranks, const std::string& name, double bytes,
                   double blocks, Table& table) {
  const std::string gradients = name + "gradients";
  if (ranks.zero_stage == 0)
    return table.add(Collective::all_reduce, Purpose::data_parallel, gradients, ranks.data, bytes);
  table.add(Collective::reduce_scatter, Purpose::data_parallel, gradients, ranks.shards, bytes,
            sharding_seconds(context, ranks.zero_stage, bytes, blocks, ranks.shards));
  // With fewer shards than data ranks the shards' sums are added up across the replicas.
  table.add(Collective::all_reduce, Purpose::data_parallel, name + "gradient shards", ranks.replicas,
            bytes / static_cast<double>(ranks.shards.ranks));
}

void add_weights(const CostContext& context, const StateRanks& ranks, const std::string& name, double bytes,
                 double blocks, Table& table) {
  // Without sharding every rank updates all weights itself: none move.
  if (ranks.zero_stage == 0) return;
  table.add(Collective::all_gather, Purpose::data_parallel, name + "weights", ranks.shards, bytes,
            sharding_seconds(context, ranks.zero_stage, bytes, blocks, ranks.shards));
}

// The rank with the most traffic sets the pace: the others wait for it at the end of the step.
void add_states(const CostContext& context, const std::vector<StateTraffic>& ranks, Table& table) {
  const StateRanks dense = dense_ranks(context), experts = expert_ranks(context);
  const double reduced = most(ranks, &StateTraffic::reduced_blocks),
               gathered = most(ranks, &StateTraffic::gathered_blocks);
  add_gradients(context, dense, "", most(ranks, &StateTraffic::gradients), reduced, table);
  add_gradients(context, experts, "expert ", most(ranks, &StateTraffic::expert_gradients), reduced, table);
  add_weights(context, dense, "", most(ranks, &StateTraffic::weights), gathered, table);
  add_weights(context, experts, "expert ", most(ranks, &StateTraffic::expert_weights), gathered, table);
}

// Sums of gradients over tensor ranks, once per step.
void add_tensor_gradients(const CostContext& context, Table& table) {
  const double gradient = element_bytes(element_type(context.recipe().precision.gradients));
  const std::vector<TensorGradientShare> shares = tensor_gradient_shares(context.partition);
  table.add(Collective::all_reduce, Purpose::tensor_parallel, "norm gradients", tensor_group(context.mesh()),
            gradient * most(shares, &TensorGradientShare::whole_group));
  table.add(Collective::all_reduce, Purpose::tensor_parallel, "key and value gradients",
            same_heads_group(context.mesh(), context.recipe().model),
            gradient * most(shares, &TensorGradientShare::same_heads));
}

// Every stage but the last sends activations, every stage but the first gradients.
void add_pipeline(const CostContext& context, Table& table) {
  const Partition& partition = context.partition;
  if (partition.mesh.pipeline <= 1) return;
  std::vector<double> sends(static_cast<std::size_t>(partition.mesh.pipeline), 0);
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage)
    // Two tensors per micro-batch and stage boundary: its activation forward, its gradient backward.
    sends[partition.rank_of(stage)] += (partition.is_last(stage) ? 0 : 1) + (stage > 0 ? 1 : 0);
  const double times = partition.shape.micro_batches * std::ranges::max(sends);
  const Boundary boundary = boundary_of(context);
  const RankGroup neighbours = pipeline_neighbours(partition.mesh), tensor = tensor_group(partition.mesh);
  table.add(Collective::send, Purpose::pipeline, "activations", neighbours, times * boundary.sent_bytes,
            times * boundary_seconds(context, neighbours));
  table.add(Collective::all_gather, Purpose::pipeline, "activations", tensor, times * boundary.whole_bytes,
            times * context.collectives.all_gather(boundary.whole_bytes, tensor));
  table.add(Collective::all_reduce, Purpose::pipeline, "tied embedding", shared_embedding_group(partition.mesh),
            shared_embedding_bytes(partition));
}

}  // namespace

std::vector<CommunicationEntry> communication_of(const Layout& layout, const ClusterProfile& profile) {
  const CostContext context(layout.partition(), profile);
  Table table{context};
  add_states(context, state_traffic(layout.partition(), layout.schedule()), table);
  const ExchangeCount exchanges(context);
  // Tensor-parallel exchanges stay together, before those of the other axes.
  const auto add_exchanges = [&](bool of_tensor_ranks) {
    for (const CountedExchange& counted : exchanges.counted())
      if ((counted.exchange.axis == RankAxis::tensor) == of_tensor_ranks) table.add(counted);
  };
  add_exchanges(true);
  add_tensor_gradients(context, table);
  add_exchanges(false);
  add_pipeline(context, table);
  const Mesh& mesh = layout.mesh();
  // Loss, norm and stop request of every rank, once per step: negligible, but listed so that the table is complete.
  const RankGroup world{mesh.world(), 1, std::min(mesh.world(), mesh.devices_per_node)};
  table.add(
      Collective::all_gather, Purpose::control, "scalars", world,
      static_cast<double>(step_scalars(layout.recipe().model) * sizeof(double)) * static_cast<double>(world.ranks));
  return std::move(table.entries);
}

}  // namespace llmtrain
