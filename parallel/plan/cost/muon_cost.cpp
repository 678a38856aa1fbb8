// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/muon_cost.h"

#include <algorithm>
#include <cstdint>

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
        splits_(
            static_cast<double>(group.kind == Kind::experts ? partition.mesh.expert_tensor : partition.mesh.tensor)) {
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
  // How many ranks hold parts of a matrix before ZeRO.
  double splits() const { return splits_; }
  double cut_bytes(std::int64_t shard) const { return exact_bytes * static_cast<double>(cuts_.sent_elements(shard)); }
  double gathered_bytes(std::int64_t shard) const {
    return splits_ > 1 ? sum(shard, [this](const MatrixSize& size) { return exact_bytes * size.local * splits_; }) : 0;
  }
  // Of the matrices of which a shard has elements.
  template <class Value>
  double sum(std::int64_t shard, Value value) const {
    double all = 0;
    const MatrixCuts::Range range = cuts_.touched_by(shard);
    for (std::size_t matrix = range.first; matrix < range.last; ++matrix) all += value(sizes_[matrix]);
    return all;
  }
  template <class Value>
  double largest(std::int64_t shard, Value value) const {
    double most = 0;
    const MatrixCuts::Range range = cuts_.touched_by(shard);
    for (std::size_t matrix = range.first; matrix < range.last; ++matrix) most = std::max(most, value(sizes_[matrix]));
    return most;
  }
  // What a rank keeps for and of the others while it transforms its own matrices.
  double exchanged_bytes(std::int64_t shard) const {
    return cut_bytes(shard) + exact_bytes * static_cast<double>(cuts_.received_elements(shard));
  }

 private:
  MatrixCuts cuts_;
  std::int64_t shards_;
  double splits_;
  std::vector<MatrixSize> sizes_;
};

// Calls visit(pipeline rank, group) for every group that Muon trains.
template <class Visit>
void for_groups(const Partition& partition, Visit visit) {
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage)
    for (const StateGroup& group : partition.groups[stage])
      if (group.is_muon) visit(partition.rank_of(stage), group);
}

// Adds what shards have to those of a pipeline rank; shards of one kind of group are on the same ranks.
void add_shards(std::vector<double>& all, const GroupMatrices& matrices,
                double (GroupMatrices::*value)(std::int64_t) const) {
  all.resize(std::max(all.size(), static_cast<std::size_t>(matrices.shards())));
  for (std::int64_t shard = 0; shard < matrices.shards(); ++shard)
    all[static_cast<std::size_t>(shard)] += (matrices.*value)(shard);
}

double most_of(const std::vector<double>& shards) {
  return shards.empty() ? 0 : *std::max_element(shards.begin(), shards.end());
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

RankGroup shard_ranks(const CostContext& context, bool of_experts) {
  return of_experts ? expert_shard_group(context.mesh()) : shard_group(context.mesh());
}

double traffic_seconds(const CostContext& context, const MuonTraffic& traffic) {
  const CollectiveCost& collectives = context.collectives;
  const auto exchange = [&](double sent, bool of_experts) {
    const RankGroup ranks = shard_ranks(context, of_experts);
    return sent > 0 ? collectives.all_to_all(all_to_all_bytes(sent, ranks), ranks) : 0;
  };
  return exchange(traffic.cut, false) + exchange(traffic.expert_cut, true) +
         collectives.all_gather(traffic.gathered, tensor_group(context.mesh())) +
         collectives.all_gather(traffic.expert_gathered, expert_tensor_group(context.mesh()));
}

}  // namespace

double all_to_all_bytes(double sent, const RankGroup& ranks) {
  const auto count = static_cast<double>(ranks.ranks);
  return sent * count / (count - 1);
}

double orthogonalize_flops(double rows, double columns, double steps) {
  const double s = std::min(rows, columns), l = std::max(rows, columns);
  return steps * (4 * s * s * l + 2 * s * s * s);
}

std::vector<MuonTraffic> muon_traffic(const Partition& partition) {
  struct Shards {
    std::vector<double> cut, gathered, expert_cut, expert_gathered;
  };
  std::vector<Shards> by_rank(static_cast<std::size_t>(partition.mesh.pipeline));
  for_groups(partition, [&](std::size_t rank, const StateGroup& group) {
    const GroupMatrices matrices(partition, group);
    const bool of_experts = group.kind == Kind::experts;
    Shards& shards = by_rank[rank];
    add_shards(of_experts ? shards.expert_cut : shards.cut, matrices, &GroupMatrices::cut_bytes);
    add_shards(of_experts ? shards.expert_gathered : shards.gathered, matrices, &GroupMatrices::gathered_bytes);
  });
  std::vector<MuonTraffic> traffic;
  for (const Shards& shards : by_rank)
    traffic.push_back(
        {most_of(shards.cut), most_of(shards.gathered), most_of(shards.expert_cut), most_of(shards.expert_gathered)});
  return traffic;
}

double muon_workspace(const Partition& partition, KernelSet kernels) {
  const double product = kernels == KernelSet::cuda ? element_bytes(ElementType::bfloat16) : exact_bytes;
  double most = 0;
  for_groups(partition, [&](std::size_t, const StateGroup& group) {
    const GroupMatrices matrices(partition, group);
    // What is orthogonalised, on tensor ranks also the whole of it, two iterates and the polynomial in the Gram matrix.
    const auto of_matrix = [&](const MatrixSize& size) {
      return exact_bytes * (size.local + (matrices.splits() > 1 ? size.whole() : 0)) +
             product * (2 * size.whole() + size.shorter() * size.shorter());
    };
    for (std::int64_t shard = 0; shard < matrices.shards(); ++shard)
      most = std::max(most, matrices.exchanged_bytes(shard) + matrices.largest(shard, of_matrix));
  });
  return most;
}

std::vector<double> muon_seconds(const CostContext& context) {
  const Roofline roofline = product_roofline(context);
  const double steps = static_cast<double>(context.recipe().training.optimizer.muon.steps);
  std::vector<double> seconds(static_cast<std::size_t>(context.mesh().pipeline));
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
  const std::vector<MuonTraffic> traffic = muon_traffic(context.partition);
  for (std::size_t rank = 0; rank < seconds.size(); ++rank) seconds[rank] += traffic_seconds(context, traffic[rank]);
  return seconds;
}

}  // namespace llmtrain
