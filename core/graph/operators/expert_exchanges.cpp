// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operators/expert_exchanges.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/graph/operators/distinct_places.h"

namespace llmtrain {
namespace {

// One of the collectives that take rows to the experts. Every rank has some for each of `ranks` positions; a part of
// those of the busiest one stays with it, and as many arrive there from each of the others.
struct RowStep {
  RankAxis axis{};
  double bytes = 0;  // that the busiest rank has before it, on the way to the experts
  double kept = 0;   // share of these that stays
  double ranks = 1;
  double waited = 0;  // bytes, of the rank that receives most

  // In the size of a tensor of which a rank sends an equal part to each. The busiest rank sends fewer rows to the
  // experts than the others, and brings more back.
  double to_experts() const { return ranks > 1 ? bytes * (1 - kept) * (ranks / (ranks - 1)) : bytes; }
  double from_experts() const { return bytes * ranks * kept; }
};

// With all rows of a rank each: to the ranks of its node that have the places of the experts' ranks on theirs, and from
// these to the experts, with the rows of the whole node.
std::vector<RowStep> relaying_steps(double ranks, std::int64_t node_ranks, double own, const RoutedLoad& load) {
  const auto inside = static_cast<double>(node_ranks);
  const PlaceShares places = place_shares(load, node_ranks);
  const RowStep first{RankAxis::expert_inside, own, places.of_busiest, inside, own * inside * places.fullest};
  const RowStep second{RankAxis::expert_across, own * inside * places.of_busiest, load.busiest / places.of_busiest,
                       ranks / inside, own * ranks * load.busiest};
  return {first, second};
}

std::vector<RowStep> row_steps(const OperatorWriter& writer, double own, const RoutedLoad& load) {
  const auto ranks = static_cast<double>(writer.setting().shards.expert);
  const std::int64_t node_ranks = writer.setting().exchange.node_ranks;
  if (relays_rows(writer, node_ranks)) return relaying_steps(ranks, node_ranks, own, load);
  return {{RankAxis::expert, own, load.busiest, ranks, own * ranks * load.busiest}};
}

// Those that are sent along this axis.
double sent_share(const OperatorWriter& writer, const MixtureOfExpertsRecipe& moe, RankAxis axis) {
  const ExchangeSetting& exchange = writer.setting().exchange;
  if (!exchange.sends_tokens_once) return 1;
  const std::int64_t ranks = writer.setting().shards.expert;
  const std::int64_t groups = axis == RankAxis::expert_across ? ranks / exchange.node_ranks : ranks;
  return distinct_share(moe, static_cast<double>(groups));
}

// Bytes of rows: of this rank's tokens, those that arrive at its experts, and these of all ranks that split the
// experts.
struct ExchangedRows {
  double own = 0, received = 0, gathered = 0;
};

// What other ranks send in the forward, on the way to the experts (`entering` forward) or from them.
double received_rows(const OperatorWriter& writer, Direction entering, const ExchangedRows& rows) {
  const PassSetting& setting = writer.setting();
  const bool goes_to_experts = entering == Direction::forward;
  double bytes = 0;
  if (setting.shards.expert > 1) bytes += goes_to_experts ? rows.received : rows.own;
  if (setting.shards.expert_tensor > 1) bytes += goes_to_experts ? rows.gathered : rows.received;
  if (setting.shards.tensor > 1 && !goes_to_experts && !setting.tokens.have_split_rows())
    bytes += writer.shape().whole_rows();
  return bytes;
}

}  // namespace

double routed_tokens(const OperatorWriter& writer) {
  return writer.shape().tokens / static_cast<double>(writer.setting().shards.tensor);
}

RoutedRows routed_rows(const OperatorWriter& writer, const MixtureOfExpertsRecipe& moe) {
  const PassSetting& setting = writer.setting();
  const std::int64_t tokens = setting.tokens.all();
  RoutedLoad load = writer.routed_load();
  const auto ranks = static_cast<double>(setting.shards.expert);
  const auto copies = static_cast<double>(setting.shards.expert_tensor);
  if (writer.is_own()) {
    const double own = routed_tokens(writer) * load.kept, arriving = own * ranks * load.busiest;
    return {own, arriving, arriving * copies, std::move(load)};
  }
  const auto fullest = static_cast<std::int64_t>(std::ceil(load.fullest * static_cast<double>(tokens)));
  const auto capacity = static_cast<double>(expert_capacity(moe, tokens, fullest));
  const double own =
      static_cast<double>(moe.experts) * capacity / static_cast<double>(setting.shards.tensor * setting.tokens.context);
  // Every rank has as many places as the fullest.
  load.busiest = 1 / ranks;
  load.of_ranks.clear();
  return {own, own, own * copies, std::move(load)};
}

bool relays_rows(const OperatorWriter& writer, std::int64_t inside) {
  return inside > 1 && inside < writer.setting().shards.expert;
}

double relayed_rows(const OperatorWriter& writer, const RoutedRows& rows, std::int64_t inside) {
  if (!relays_rows(writer, inside)) return 0;
  return rows.own * static_cast<double>(inside) * place_shares(rows.load, inside).fullest;
}

double relayed_copies(const OperatorWriter& writer, const RoutedRows& rows) {
  const ExchangeSetting& exchange = writer.setting().exchange;
  // Kernels that send tokens once forward them from buffers.
  if (!relays_rows(writer, exchange.node_ranks) || exchange.sends_tokens_once) return 0;
  // Each is read and written before the first step and before the second one, on both ways.
  return 2 * 2 * (rows.own + relayed_rows(writer, rows, exchange.node_ranks)) * writer.shape().hidden;
}

// The ranks that split an expert's matrices gather each other's rows after the all-to-all, and add up their parts of
// the results before it.
void exchange_tokens(const OperatorWriter& writer, const MixtureOfExpertsRecipe& moe, Operator& item,
                     Direction entering, const RoutedRows& rows) {
  const auto parts = static_cast<double>(writer.setting().exchange.parts);
  const double row_bytes = writer.shape().element * writer.shape().hidden;
  const double gathered = row_bytes * rows.places;
  const std::vector<RowStep> steps = row_steps(writer, row_bytes * rows.own, rows.load);
  for (const Direction direction : {Direction::forward, Direction::backward}) {
    for (const RowStep& row_step : steps) {
      const double share = sent_share(writer, moe, row_step.axis);
      const double bytes = direction == entering ? row_step.to_experts() : row_step.from_experts();
      Exchange& step =
          OperatorWriter::exchange(item, row_step.axis, Collective::all_to_all, direction, "tokens", share * bytes);
      step.waited_bytes = share * row_step.waited;
      step.parts = parts;
      if (parts > 1) step.exposure = Exposure::beside_parts;
    }
    const Collective collective = direction == entering ? Collective::all_gather : Collective::reduce_scatter;
    OperatorWriter::exchange(item, RankAxis::expert_tensor, collective, direction, "expert rows", gathered).parts =
        parts;
    // With whole rows every tensor rank needs the results of all tokens, of which it sent a part.
    if (direction != entering && !writer.setting().tokens.have_split_rows())
      OperatorWriter::exchange(item, RankAxis::tensor, Collective::all_gather, direction, "expert results",
                               writer.shape().whole_rows());
  }
  item.received += received_rows(writer, entering, {row_bytes * rows.own, row_bytes * rows.arriving, gathered});
}

// How many rows there are for each expert; where the exchange is chosen by them also the most for one expert, to every
// rank.
void exchange_counts(const OperatorWriter& writer, const MixtureOfExpertsRecipe& moe, Operator& item) {
  const std::int64_t most = writer.setting().exchange.is_chosen ? writer.setting().shards.expert : 0;
  const double bytes = index_bytes * static_cast<double>(moe.experts + most);
  for (const RowStep& step : row_steps(writer, 0, {}))
    OperatorWriter::exchange(item, step.axis, Collective::all_to_all, Direction::forward, "token counts", bytes);
  OperatorWriter::exchange(item, RankAxis::expert_tensor, Collective::all_gather, Direction::forward, "token counts",
                           bytes * static_cast<double>(writer.setting().shards.expert_tensor));
}

}  // namespace llmtrain
