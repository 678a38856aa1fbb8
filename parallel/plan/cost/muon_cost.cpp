// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/muon_cost.h"

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/graph/sharding.h"
#include "parallel/layout/matrix_cuts.h"

namespace llmtrain {
namespace {

using Kind = StateGroup::Kind;

// Per element of what ranks send each other and of what is orthogonalised.
constexpr double exact_bytes = element_bytes(ElementType::float32);

// A matrix of a group, on one rank before ZeRO and whole.
struct MatrixSize {
  double local = 0;  // elements
  double rows = 0, columns = 0;

  double whole() const { return rows * columns; }
  double shorter() const { return std::min(rows, columns); }
  double longer() const { return std::max(rows, columns); }
};

// The matrices of one group, and how ZeRO cuts them.
class GroupMatrices {
 public:
  GroupMatrices(const Partition& partition, const StateGroup& group)
      : cuts_(matrices_of(*partition.graph, group, shard_degrees(partition.mesh)), group.flat()),
        shards_(group.zero_stage > 0 ? group.shards.ranks : 1),
        splits_(static_cast<std::size_t>(group.kind == Kind::experts ? partition.mesh.expert_tensor
                                                                     : partition.mesh.tensor)) {
    for (std::size_t i = 0; i < group.parameters.size(); ++i) {
      const Parameter& parameter = partition.graph->parameters[group.parameters[i]];
      const std::int64_t count = local_matrices(parameter, shard_degrees(partition.mesh));
      const auto rows = static_cast<double>(parameter.shape[parameter.shape.size() - 2]);
      const MatrixSize size{static_cast<double>(group.sizes[i]) / static_cast<double>(count), rows,
                            static_cast<double>(parameter.shape.back())};
      sizes_.insert(sizes_.end(), static_cast<std::size_t>(count), size);
    }
  }

  std::int64_t shards() const { return shards_; }
  // The ranks that hold parts of a matrix before ZeRO.
  std::size_t splits() const { return splits_; }
  double cut_bytes(std::int64_t shard) const {
    return exact_bytes * static_cast<double>(cuts_.exchanged_elements(shard));
  }
  // Calls visit(matrices) for those that the ranks of a shard work on at a time, one each.
  template <class Visit>
  void for_batches(std::int64_t shard, Visit visit) const {
    for (const auto those : {MatrixCuts::Those::whole, MatrixCuts::Those::cut}) {
      const std::vector<std::size_t> matrices = cuts_.at_home(shard, those);
      for (std::size_t first = 0; first < matrices.size(); first += splits_)
        visit(std::span(matrices).subspan(first, std::min(splits_, matrices.size() - first)));
    }
  }
  // Of each rank of a shard, added to `sent`: its parts of the matrices that others work on, and their results.
  void add_split_bytes(std::int64_t shard, std::span<double> sent) const {
    if (splits_ == 1) return;
    for_batches(shard, [&](std::span<const std::size_t> matrices) {
      double all = 0;
      for (const std::size_t matrix : matrices) all += exact_bytes * sizes_[matrix].local;
      for (std::size_t position = 0; position < splits_; ++position) {
        const double own = position < matrices.size() ? exact_bytes * sizes_[matrices[position]].local : 0;
        sent[position] += all - own + static_cast<double>(splits_ - 1) * own;
      }
    });
  }
  // The sum over a shard's batches of the largest value in each.
  template <class Value>
  double sum(std::int64_t shard, Value value) const {
    double all = 0;
    for_batches(shard, [&](std::span<const std::size_t> matrices) { all += largest_of(matrices, value); });
    return all;
  }
  template <class Value>
  double largest(std::int64_t shard, Value value) const {
    double most = 0;
    for_batches(shard,
                [&](std::span<const std::size_t> matrices) { most = std::max(most, largest_of(matrices, value)); });
    return most;
  }

 private:
  template <class Value>
  double largest_of(std::span<const std::size_t> matrices, Value value) const {
    double most = 0;
    for (const std::size_t matrix : matrices) most = std::max(most, value(sizes_[matrix]));
    return most;
  }

  MatrixCuts cuts_;
  std::int64_t shards_;
  std::size_t splits_;
  std::vector<MatrixSize> sizes_;
};

// Calls visit(pipeline rank, group) for every group that Muon trains.
template <class Visit>
void for_groups(const Partition& partition, Visit visit) {
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage)
    for (const StateGroup& group : partition.groups[stage])
      if (group.is_muon) visit(partition.rank_of(stage), group);
}

// Of the ranks that share a stage's states, by shard and within it by position among those that split matrices.
void add_sent(const GroupMatrices& matrices, std::vector<double>& cut, std::vector<double>& split) {
  const auto shards = static_cast<std::size_t>(matrices.shards()), splits = matrices.splits();
  cut.resize(std::max(cut.size(), shards));
  split.resize(std::max(split.size(), shards * splits));
  for (std::size_t shard = 0; shard < shards; ++shard) {
    cut[shard] += matrices.cut_bytes(static_cast<std::int64_t>(shard));
    matrices.add_split_bytes(static_cast<std::int64_t>(shard), std::span(split).subspan(shard * splits, splits));
  }
}

double most_of(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// The three products of a step, and its passes over memory: of the polynomial in the Gram matrix, and of the sum.
Work orthogonalize_work(const Roofline& roofline, const MatrixSize& size, double steps) {
  const double s = size.shorter(), l = size.longer();
  const Work products = roofline.product({.rows = s, .columns = s, .inner = l}) +
                        roofline.product({.rows = s, .columns = s, .inner = s}) +
                        roofline.product({.rows = s, .columns = l, .inner = s});
  return (products + roofline.pass(roofline.element_bytes() * (5 * s * s + 3 * s * l))) * steps;
}

// Bytes per element that the update reads and writes: gradients for the norm, the mean, what is orthogonalised and
// clearing; the mean in two passes and a third that reads it; what is orthogonalised; weights in two passes.
double pass_bytes(const StateTypes& types) {
  const double weights = types.master ? types.master_bytes() : types.weight_bytes();
  const double copy = types.master ? types.master_bytes() + types.weight_bytes() : 0;
  return 4 * types.gradient_bytes() + 5 * types.moment_bytes() + 3 * exact_bytes + 4 * weights + copy;
}

// Orthogonalising runs in bf16 on GPUs.
Roofline product_roofline(const CostContext& context) {
  const bool is_gpu = kernel_set(context.recipe(), context.profile) == KernelSet::cuda;
  return {context.profile, is_gpu ? DataType::bf16 : DataType::fp32};
}

double traffic_seconds(const CostContext& context, const MuonTraffic& traffic) {
  double seconds = 0;
  for (const MuonExchange& exchange : muon_exchanges(context))
    if (const double sent = traffic.*exchange.sent; sent > 0)
      seconds += context.collectives.all_to_all(all_to_all_bytes(sent, exchange.ranks), exchange.ranks);
  return seconds;
}

}  // namespace

std::vector<MuonTraffic> muon_traffic(const Partition& partition) {
  struct Sent {
    std::vector<double> cut, split, expert_cut, expert_split;
  };
  std::vector<Sent> by_rank(static_cast<std::size_t>(partition.mesh.pipeline));
  for_groups(partition, [&](std::size_t rank, const StateGroup& group) {
    Sent& sent = by_rank[rank];
    const bool is_experts = group.kind == Kind::experts;
    add_sent(GroupMatrices(partition, group), is_experts ? sent.expert_cut : sent.cut,
             is_experts ? sent.expert_split : sent.split);
  });
  std::vector<MuonTraffic> traffic;
  for (const Sent& sent : by_rank)
    traffic.push_back({most_of(sent.cut), most_of(sent.split), most_of(sent.expert_cut), most_of(sent.expert_split)});
  return traffic;
}

std::vector<MuonExchange> muon_exchanges(const CostContext& context) {
  const Mesh& mesh = context.mesh();
  std::vector<MuonExchange> exchanges{
      {&MuonTraffic::cut, Purpose::data_parallel, "cut matrices", shard_group(mesh)},
      {&MuonTraffic::split, Purpose::tensor_parallel, "split matrices", tensor_group(mesh)}};
  // Without experts nothing says that parallel.expert_tensor divides anything.
  if (!context.recipe().model.moe) return exchanges;
  exchanges.push_back(
      {&MuonTraffic::expert_cut, Purpose::data_parallel, "cut expert matrices", expert_shard_group(mesh)});
  exchanges.push_back(
      {&MuonTraffic::expert_split, Purpose::tensor_parallel, "split expert matrices", expert_tensor_group(mesh)});
  return exchanges;
}

double all_to_all_bytes(double sent, const RankGroup& ranks) {
  const auto count = static_cast<double>(ranks.ranks);
  return sent * count / (count - 1);
}

double muon_workspace(const Partition& partition, KernelSet kernels) {
  const double product = kernels == KernelSet::cuda ? element_bytes(ElementType::bfloat16) : exact_bytes;
  double most = 0;
  for_groups(partition, [&](std::size_t, const StateGroup& group) {
    const GroupMatrices matrices(partition, group);
    // What is orthogonalised, with tensor ranks also the parts that are sent and received of it; two iterates and the
    // polynomial in the Gram matrix.
    const double copies = matrices.splits() > 1 ? 3 : 1;
    const auto of_matrix = [&](const MatrixSize& size) {
      return copies * exact_bytes * size.whole() + product * (2 * size.whole() + size.shorter() * size.shorter());
    };
    // Parts that are sent and received, and of the latter the whole matrices or their results.
    for (std::int64_t shard = 0; shard < matrices.shards(); ++shard)
      most = std::max(most, 2 * matrices.cut_bytes(shard) + matrices.largest(shard, of_matrix));
  });
  return most;
}

std::vector<double> muon_seconds(const CostContext& context) {
  const Roofline roofline = product_roofline(context);
  const auto steps = static_cast<double>(context.recipe().training.optimizer.muon.steps);
  const std::vector<MuonTraffic> traffic = muon_traffic(context.partition);
  std::vector<double> seconds;
  for (const MuonTraffic& of_rank : traffic) seconds.push_back(traffic_seconds(context, of_rank));
  for_groups(context.partition, [&](std::size_t rank, const StateGroup& group) {
    const GroupMatrices matrices(context.partition, group);
    const double bytes =
        static_cast<double>(group.shard()) * pass_bytes(group.types) * context.program().traffic.optimizer;
    double slowest = 0;
    for (std::int64_t shard = 0; shard < matrices.shards(); ++shard)
      slowest = std::max(slowest, matrices.sum(shard, [&](const MatrixSize& size) {
        return roofline.seconds(orthogonalize_work(roofline, size, steps));
      }));
    seconds[rank] += slowest + context.roofline.pass(bytes).seconds;
  });
  return seconds;
}

}  // namespace llmtrain
