// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/graph/graph.h"
#include "core/graph/sharding.h"
#include "parallel/layout/declared_scalars.h"
#include "parallel/layout/layout.h"
#include "parallel/plan/cost/muon_cost.h"
#include "parallel/plan/cost/operator_cost.h"
#include "parallel/plan/cost/state_cost.h"
#include "parallel/plan/cost/state_transfers.h"
#include "parallel/plan/cost/step_cost_model.h"

namespace llmtrain {
namespace {

// A collective inside blocks, and how often each pipeline rank takes part in it per step.
struct CountedExchange {
  Exchange exchange;
  std::vector<double> times;
  std::vector<double> shown_times;  // times the share of each for which its pass waits

  // Exchanges that differ only in direction or exposure share one row of the table.
  auto kind() const {
    return std::tie(exchange.axis, exchange.tensors, exchange.collective, exchange.bytes, exchange.compression,
                    exchange.parts);
  }
};

// Counts the collectives inside the blocks of all stages: units first, so that what they exchange leads the table.
class ExchangeCount {
 public:
  explicit ExchangeCount(const PricedLayout& priced) : priced_(priced) {
    for (const bool of_units : {true, false}) count_blocks(of_units);
    // By axis, then in the order in which the model first uses the tensors.
    std::ranges::stable_sort(counted_, {}, [this](const CountedExchange& counted) {
      const Exchange& exchange = counted.exchange;
      return std::tuple(exchange.axis, place_of(exchange.tensors), exchange.collective);
    });
  }

  const std::vector<CountedExchange>& counted() const { return counted_; }

 private:
  void count_blocks(bool of_units) {
    const Partition& partition = priced_.partition;
    const Graph& graph = *partition.graph;
    for (std::size_t stage = 0; stage < partition.stages.size(); ++stage) {
      for (const std::size_t block : partition.stages[stage].blocks) {
        if (graph.blocks[block].is_unit != of_units) continue;
        const OperatorList& operators = priced_.operators.of(block);
        for (const Operator& item : operators)
          for (const Exchange& exchange : item.exchanges)
            count(partition.rank_of(stage), {item, exchange, priced_.operators.recompute_of(block)},
                  shown_share(priced_, operators, exchange));
      }
    }
  }

  // An exchange where it is.
  struct Place {
    const Operator& item;
    const Exchange& exchange;
    Recompute recompute{};  // of its block
  };

  void count(std::size_t rank, const Place& of_block, double shown) {
    const auto& [item, exchange, recompute] = of_block;
    const bool is_repeated_here = exchange.direction == Direction::forward && is_exchanged_again(item, recompute);
    const std::vector<double> never(static_cast<std::size_t>(priced_.mesh().pipeline), 0);
    CountedExchange wanted{exchange, never, never};
    auto place = std::find_if(counted_.begin(), counted_.end(),
                              [&](const CountedExchange& known) { return known.kind() == wanted.kind(); });
    if (place == counted_.end()) place = counted_.insert(place, std::move(wanted));
    const double times = priced_.partition.shape.micro_batches * (is_repeated_here ? 2 : 1);
    place->times[rank] += times;
    place->shown_times[rank] += times * shown;
    if (std::find(names_.begin(), names_.end(), exchange.tensors) == names_.end()) names_.push_back(exchange.tensors);
  }

  std::ptrdiff_t place_of(const std::string& tensors) const {
    return std::find(names_.begin(), names_.end(), tensors) - names_.begin();
  }

  const PricedLayout& priced_;
  std::vector<CountedExchange> counted_;
  std::vector<std::string> names_;
};

// What one pipeline rank adds to a row of the communication table.
struct Share {
  double bytes = 0;  // of whole tensors per step
  double seconds = 0;
  // What passes hide of gathers, reductions and tensors between stages is known after the simulation: 0 until then.
  double shown_seconds = 0;
};

// Adds up the communication of each pipeline rank, in rows by collective, purpose and kind of tensor.
class Table {
 public:
  explicit Table(const PricedLayout& priced) : priced_(priced) {}

  const PricedLayout& priced() const { return priced_; }
  std::size_t ranks() const { return static_cast<std::size_t>(priced_.mesh().pipeline); }

  void add(Collective collective, Purpose purpose, std::string_view tensors, const RankGroup& group, std::size_t rank,
           const Share& share) {
    if (group.ranks <= 1 || share.bytes <= 0) return;
    auto row = std::ranges::find_if(rows_, [&](const Row& known) {
      return std::tie(known.entry.collective, known.entry.purpose, known.entry.ranks) ==
                 std::tie(collective, purpose, group.ranks) &&
             known.entry.tensors == tensors;
    });
    if (row == rows_.end()) {
      const CommunicationEntry entry{
          .collective = collective, .purpose = purpose, .tensors = std::string(tensors), .ranks = group.ranks};
      row = rows_.insert(row, {entry, std::vector<Share>(ranks())});
    }
    row->shares[rank].bytes += share.bytes;
    row->shares[rank].seconds += share.seconds;
    row->shares[rank].shown_seconds += share.shown_seconds;
  }
  // A collective of the step, which nothing hides.
  void add(Collective collective, Purpose purpose, std::string_view tensors, const RankGroup& group, std::size_t rank,
           double bytes) {
    const double seconds = priced_.collectives.seconds(collective, bytes, group);
    add(collective, purpose, tensors, group, rank, {bytes, seconds, seconds});
  }

  // The table of one rank, or in each row the rank that sends most there.
  std::vector<CommunicationEntry> of(std::optional<std::size_t> rank) const {
    std::vector<CommunicationEntry> entries;
    for (const Row& row : rows_) {
      const Share& share = rank ? row.shares[*rank] : *std::ranges::max_element(row.shares, {}, &Share::bytes);
      if (share.bytes <= 0) continue;
      entries.push_back(row.entry);
      entries.back().bytes_per_rank_per_step = ring_bytes(row.entry.collective, row.entry.ranks, share.bytes);
      entries.back().seconds = share.seconds;
      entries.back().exposed_seconds = share.shown_seconds;
    }
    return entries;
  }

 private:
  struct Row {
    CommunicationEntry entry;
    std::vector<Share> shares;  // by pipeline rank
  };
  const PricedLayout& priced_;
  std::vector<Row> rows_;
};

void add_exchange(const CountedExchange& counted, Table& table) {
  const Exchange& exchange = counted.exchange;
  const AxisGroup group = group_of(table.priced(), exchange.axis);
  const double seconds = exchange_seconds(table.priced(), exchange);
  for (std::size_t rank = 0; rank < table.ranks(); ++rank)
    table.add(exchange.collective, group.purpose, exchange.tensors, group.ranks, rank,
              {counted.times[rank] * (exchange.bytes / exchange.compression), counted.times[rank] * seconds,
               counted.shown_times[rank] * seconds});
}

// How often each stage's operation occurs in its rank's schedule.
std::vector<double> count_by_stage(const Schedule& schedule, Operation operation) {
  std::vector<double> counts(static_cast<std::size_t>(schedule.shape.stages()), 0);
  for (const RankSchedule& rank : schedule.ranks)
    for (const Instruction& instruction : rank.instructions)
      if (instruction.operation == operation) ++counts[static_cast<std::size_t>(instruction.stage)];
  return counts;
}

// Gradients first, then weights.
void add_states(const Schedule& schedule, Table& table) {
  const Partition& partition = table.priced().partition;
  const std::vector<double> reductions = count_by_stage(schedule, Operation::reduce_gradients);
  const std::vector<double> gathers = count_by_stage(schedule, Operation::gather_weights);
  const auto times = [&](StateTransfer::When when, std::size_t stage) {
    switch (when) {
      case StateTransfer::When::reduction:
        return reductions[stage];
      case StateTransfer::When::last_reduction:
        // Once per step, however often the stage's other gradients are reduced.
        return std::min(1.0, reductions[stage]);
      case StateTransfer::When::gather:
        return gathers[stage];
    }
    return 0.0;
  };
  for (const bool is_gather : {false, true}) {
    for (std::size_t stage = 0; stage < partition.stages.size(); ++stage) {
      for (const StateTransfer& transfer : state_transfers(table.priced(), stage)) {
        if ((transfer.when == StateTransfer::When::gather) != is_gather) continue;
        const double count = times(transfer.when, stage), seconds = count * transfer.seconds;
        table.add(transfer.collective, Purpose::data_parallel, transfer.tensors, transfer.ranks,
                  partition.rank_of(stage), {count * transfer.bytes, seconds, 0});
      }
    }
  }
}

// Sums of gradients over tensor ranks, once per step.
void add_tensor_gradients(Table& table) {
  const PricedLayout& priced = table.priced();
  const std::vector<TensorGradientShare> shares = tensor_gradient_shares(priced.partition);
  const RankGroup tensor = tensor_group(priced.mesh());
  const auto add = [&](std::string_view tensors, const RankGroup& ranks, auto bytes,
                       Purpose purpose = Purpose::tensor_parallel) {
    for (std::size_t rank = 0; rank < shares.size(); ++rank)
      table.add(Collective::all_reduce, purpose, tensors, ranks, rank, std::invoke(bytes, shares[rank]));
  };
  add("norm gradients", tensor, &TensorGradientShare::whole_group);
  for (const std::int64_t copies : copy_counts(priced.graph(), priced.mesh().tensor))
    add("key and value gradients", copies_group(priced.partition, copies), [&](const TensorGradientShare& share) {
      const auto bytes = share.copies.find(copies);
      return bytes == share.copies.end() ? 0 : bytes->second;
    });
  add("FP8 maxima of states", tensor, &TensorGradientShare::maxima);
  add("FP8 maxima of expert states", expert_parts_group(priced.mesh()), &TensorGradientShare::expert_maxima,
      Purpose::expert);
}

// Matrices that Muon trains move once per step: between ZeRO's shards, and between tensor ranks.
void add_muon(Table& table) {
  const std::vector<MuonTraffic> traffic = muon_traffic(table.priced().partition);
  for (const MuonExchange& exchange : muon_exchanges(table.priced()))
    for (std::size_t rank = 0; rank < traffic.size(); ++rank)
      if (const double sent = traffic[rank].*exchange.sent; sent > 0)
        table.add(Collective::all_to_all, exchange.purpose, exchange.tensors, exchange.ranks, rank,
                  all_to_all_bytes(sent, exchange.ranks));
}

// Every stage but the last sends activations to the next one and receives their gradients, if there are any, which it
// gathers.
void add_transfers(Table& table) {
  const PricedLayout& priced = table.priced();
  const Partition& partition = priced.partition;
  const RankGroup tensor = tensor_group(partition.mesh);
  const double micros = partition.shape.micro_batches;
  for (const bool is_gather : {false, true}) {
    for (std::size_t stage = 0; stage + 1 < partition.stages.size(); ++stage) {
      const std::size_t here = partition.rank_of(stage), next = partition.rank_of(stage + 1);
      const RankGroup neighbours = pipeline_neighbours(partition.mesh, static_cast<std::int64_t>(here));
      double sent_bytes = 0, whole_bytes = 0, gather_seconds = 0;
      for (const std::size_t value : partition.outgoing(stage)) {
        const Message message = message_of(priced, value);
        sent_bytes += message.sent_bytes;
        whole_bytes += message.whole_bytes;
        gather_seconds += micros * priced.collectives.all_gather(message.whole_bytes, tensor);
      }
      const double sent_seconds =
          micros * transfer_seconds(priced, partition.outgoing(stage), neighbours) - gather_seconds;
      const bool has_gradients = partition.shape.sends_gradients(static_cast<std::int32_t>(stage) + 1);
      for (const std::size_t rank : {here, next}) {
        if (!has_gradients && rank == (is_gather ? here : next)) continue;
        if (is_gather)
          table.add(Collective::all_gather, Purpose::pipeline, "activations", tensor, rank,
                    {micros * whole_bytes, gather_seconds, 0});
        else
          table.add(Collective::send, Purpose::pipeline, "activations", neighbours, rank,
                    {micros * sent_bytes, sent_seconds, 0});
      }
    }
  }
}

void add_pipeline(Table& table) {
  const Partition& partition = table.priced().partition;
  if (partition.mesh.pipeline <= 1) return;
  add_transfers(table);
  for (const SharedGradients& shared : shared_gradients(partition)) {
    const bool is_table = partition.graph->parameters[shared.group->parameters.front()].is_table;
    for (const std::size_t rank : shared.group->holders)
      table.add(Collective::all_reduce, Purpose::pipeline, is_table ? "tied embedding" : "shared weights", shared.ranks,
                rank, shared.bytes);
  }
}

// Loss, norm and stop request of every rank, once per step: negligible, but listed so that the table is complete.
void add_scalars(Table& table) {
  const PricedLayout& priced = table.priced();
  const std::int64_t ranks = priced.mesh().world();
  const RankGroup world{ranks, 1, std::min(ranks, priced.mesh().devices_per_node)};
  const auto bytes = static_cast<double>(declared_scalars(priced.partition).bytes());
  for (std::size_t rank = 0; rank < table.ranks(); ++rank)
    table.add(Collective::all_gather, Purpose::control, "scalars", world, rank, bytes * static_cast<double>(ranks));
}

}  // namespace

std::vector<CommunicationEntry> communication_of(const PricedLayout& priced, const Schedule& schedule,
                                                 std::optional<std::size_t> pipeline_rank) {
  Table table(priced);
  add_states(schedule, table);
  const ExchangeCount exchanges(priced);
  // Tensor-parallel exchanges stay together, before those of the other axes.
  const auto add_exchanges = [&](bool of_tensor_ranks) {
    for (const CountedExchange& counted : exchanges.counted())
      if ((counted.exchange.axis == RankAxis::tensor) == of_tensor_ranks) add_exchange(counted, table);
  };
  add_exchanges(true);
  add_tensor_gradients(table);
  add_muon(table);
  add_exchanges(false);
  add_pipeline(table);
  add_scalars(table);
  return table.of(pipeline_rank);
}

}  // namespace llmtrain
