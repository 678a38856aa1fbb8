// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/muon_cost.h"

#include <algorithm>

#include "parallel/plan/cost/muon_matrices.h"
#include "parallel/plan/cost/offload_cost.h"

namespace llmtrain {
namespace {

constexpr double exact_bytes = MuonMatrices::exact_bytes;

// What one group's matrices make each rank send, by shard, and by shard and rank.
struct SentBytes {
  std::vector<double> cut, split;

  explicit SentBytes(const MuonMatrices& matrices) : cut(matrices.cut_bytes()), split(matrices.split_bytes()) {}
};

void add_times(std::vector<double>& sums, const std::vector<double>& values, double times) {
  sums.resize(std::max(sums.size(), values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) sums[i] += times * values[i];
}

// Ranks that exchange matrices wait for the one that has most to send or to compute.
double most_of(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

// What a rank sends that has so many groups of each kind.
MuonTraffic traffic_of(const MuonGroups& groups, const std::vector<SentBytes>& sent,
                       const std::vector<std::size_t>& counts) {
  std::vector<double> cut, split, expert_cut, expert_split;
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const bool is_of_experts = groups.distinct()[i].matrices.is_of_experts();
    const auto times = static_cast<double>(counts[i]);
    if (counts[i] == 0) continue;
    add_times(is_of_experts ? expert_cut : cut, sent[i].cut, times);
    add_times(is_of_experts ? expert_split : split, sent[i].split, times);
  }
  return {most_of(cut), most_of(split), most_of(expert_cut), most_of(expert_split)};
}

std::vector<MuonTraffic> traffic_of(const MuonGroups& groups) {
  std::vector<SentBytes> sent;
  for (const MuonGroups::Group& group : groups.distinct()) sent.emplace_back(group.matrices);
  std::vector<MuonTraffic> traffic;
  for (std::size_t rank = 0; rank < groups.ranks(); ++rank) {
    // Most pipeline ranks hold as many groups of each kind as the one before, and a search prices many layouts.
    const bool is_as_before = rank > 0 && groups.counts(rank) == groups.counts(rank - 1);
    traffic.push_back(is_as_before ? traffic.back() : traffic_of(groups, sent, groups.counts(rank)));
  }
  return traffic;
}

// The three products of a step, and its pass over [s, s] for the polynomial in the Gram matrix, which reads two and
// writes one, after one that scales where no kernel does both.
Work orthogonalize_work(const Roofline& roofline, const MatrixSize& size, double steps, ComputeDevice device) {
  const double s = size.shorter(), l = size.longer();
  const Work products = roofline.product({.rows = s, .columns = s, .inner = l}) +
                        roofline.product({.rows = s, .columns = s, .inner = s}) +
                        roofline.product({.rows = s, .columns = l, .inner = s});
  const double elements = (device == ComputeDevice::cuda ? 3 : 5) * s * s;
  return (products + roofline.pass(roofline.element_bytes() * elements)) * steps;
}

// Bytes per element that the update reads and writes: gradients for the norm, the mean, what is orthogonalised and
// clearing; the mean in two passes and a third that reads it; what is orthogonalised; weights in two passes. A GPU's
// kernels take the mean and the weights once each, and write the rounded weights with them; what is orthogonalised they
// write and read twice, and its result they write and read, with the iterate at both ends.
double pass_bytes(const StateTypes& types, ComputeDevice device) {
  const double weights = types.master ? types.master_bytes() : types.weight_bytes();
  const double gradients = 4 * types.gradient_bytes();
  if (device == ComputeDevice::cuda)
    return gradients + 3 * types.moment_bytes() + 5 * exact_bytes + 2 * element_bytes(ElementType::bfloat16) +
           2 * weights + (types.master ? types.weight_bytes() : 0);
  const double copy = types.master ? types.master_bytes() + types.weight_bytes() : 0;
  return gradients + 5 * types.moment_bytes() + 3 * exact_bytes + 4 * weights + copy;
}

// Orthogonalising runs in bf16 on GPUs.
Roofline product_roofline(const PricedLayout& priced) {
  const bool is_gpu = priced.setting().program.device == ComputeDevice::cuda;
  return {priced.profile, is_gpu ? DataType::bf16 : DataType::fp32};
}

double traffic_seconds(const PricedLayout& priced, const MuonTraffic& traffic) {
  double seconds = 0;
  for (const MuonExchange& exchange : muon_exchanges(priced))
    if (const double sent = traffic.*exchange.sent; sent > 0)
      seconds += priced.collectives.all_to_all(all_to_all_bytes(sent, exchange.ranks), exchange.ranks);
  return seconds;
}

}  // namespace

std::vector<MuonTraffic> muon_traffic(const Partition& partition) { return traffic_of(MuonGroups(partition)); }

std::vector<MuonExchange> muon_exchanges(const PricedLayout& priced) {
  const Mesh& mesh = priced.mesh();
  std::vector<MuonExchange> exchanges{
      {&MuonTraffic::cut, Purpose::data_parallel, "cut matrices", shard_group(mesh)},
      {&MuonTraffic::split, Purpose::tensor_parallel, "split matrices", tensor_group(mesh)}};
  // Without experts nothing says that parallel.expert_tensor divides anything.
  if (!priced.recipe().model.moe) return exchanges;
  exchanges.push_back(
      {&MuonTraffic::expert_cut, Purpose::data_parallel, "cut expert matrices", expert_shard_group(mesh)});
  exchanges.push_back(
      {&MuonTraffic::expert_split, Purpose::tensor_parallel, "split expert matrices", expert_tensor_group(mesh)});
  return exchanges;
}

// CollectiveCost takes all that a rank has, of which it keeps one part in n.
double all_to_all_bytes(double sent, const RankGroup& ranks) {
  const auto count = static_cast<double>(ranks.ranks);
  return sent * count / (count - 1);
}

namespace {

// Whether a group's states come to the GPU for its update.
bool is_copied(const Partition& partition, const StateGroup& group, ComputeDevice device) {
  return device == ComputeDevice::cuda && partition.recipe.memory.offload.moves_states() && !group.stays;
}

// The copies of one element.
MuonCopies copied_bytes(const Partition& partition, const StateGroup& group) {
  const StateTypes& types = group.types;
  const double states = exact_bytes + types.moment_bytes();
  const double gradients = evicted_bytes(partition, group) > 0 ? types.gradient_bytes() : 0;
  const double rounded = partition.recipe.memory.offload.weights && types.master ? types.weight_bytes() : 0;
  return {states + gradients, states + rounded};
}

// An update that takes so long without the copies, which go on beside it in both directions, but with naive swapping.
double with_copies(const PricedLayout& priced, const StateGroup& group, double update) {
  if (!is_copied(priced.partition, group, priced.setting().program.device)) return update;
  const MuonCopies bytes = muon_copies(priced.partition, group);
  const double bandwidth = priced.profile.device.pcie_bandwidth;
  if (priced.recipe().memory.swaps_states()) return update + (bytes.incoming + bytes.outgoing) / bandwidth;
  return std::max({update, bytes.incoming / bandwidth, bytes.outgoing / bandwidth});
}

// Bytes of the work on a matrix with what is copied for it: the weights of the one before and its own momentum, which
// are still leaving, each with what else came or leaves with it. Before the work the momentum and what is to be
// orthogonalised are there, and after it the weights and the result.
double with_copied(const Partition& partition, const StateGroup& group, const MatrixSize& size, double work) {
  const MuonCopies of_element = copied_bytes(partition, group);
  const double states = group.types.moment_bytes() + exact_bytes;
  const double gradients = of_element.incoming - states, rounded = of_element.outgoing - states;
  const double leaving = partition.recipe.memory.swaps_states() ? 0 : states + gradients + rounded;
  return leaving * size.local +
         std::max(work, 2 * exact_bytes * size.whole() + std::max(gradients, rounded) * size.local);
}

}  // namespace

MuonCopies muon_copies(const Partition& partition, const StateGroup& group) {
  const MuonCopies of_element = copied_bytes(partition, group);
  const auto elements = static_cast<double>(group.flat().shard(0).count());
  return {of_element.incoming * elements, of_element.outgoing * elements};
}

double muon_copied_bytes(const Partition& partition, ComputeDevice device, std::int64_t pipeline_rank) {
  double bytes = 0;
  for (auto stage = static_cast<std::size_t>(pipeline_rank); stage < partition.stages.size();
       stage += static_cast<std::size_t>(partition.mesh.pipeline))
    for (const StateGroup& group : partition.groups[stage]) {
      if (!group.is_muon || !is_copied(partition, group, device)) continue;
      const MuonCopies of_group = muon_copies(partition, group);
      bytes += of_group.incoming + of_group.outgoing;
    }
  return bytes;
}

double muon_workspace(const Partition& partition, ComputeDevice device) {
  const double product = device == ComputeDevice::cuda ? element_bytes(ElementType::bfloat16) : exact_bytes;
  double most = 0;
  const MuonGroups groups(partition);
  for (const MuonGroups::Group& of : groups.distinct()) {
    const MuonMatrices& matrices = of.matrices;
    // What is orthogonalised, with tensor ranks also the parts that are sent and received of it; two iterates and the
    // polynomial in the Gram matrix, or the last iterate and the result, where that is of another type.
    const double copies = matrices.splits() > 1 ? 3 : 1;
    const bool is_fetched = is_copied(partition, of.group, device);
    const std::vector<double> largest = matrices.largest([&](const MatrixSize& size) {
      const double iterates = product * (2 * size.whole() + size.shorter() * size.shorter());
      const double result = product < exact_bytes ? (product + exact_bytes) * size.whole() : 0;
      const double work = copies * exact_bytes * size.whole() + std::max(iterates, result);
      return is_fetched ? with_copied(partition, of.group, size, work) : work;
    });
    // Beside a GPU they are in the host's memory.
    std::vector<HeldPieces> pieces(matrices.shards());
    if (device == ComputeDevice::cpu) pieces = held_pieces(partition, of.group, false);
    // Parts that are sent and received, and of the latter the whole matrices or their results.
    for (std::size_t shard = 0; shard < matrices.shards(); ++shard)
      most =
          std::max(most, static_cast<double>(pieces[shard].bytes) + 2 * matrices.cut_bytes()[shard] + largest[shard]);
  }
  return most;
}

std::vector<double> muon_seconds(const PricedLayout& priced) {
  const MuonGroups groups(priced.partition);
  const Roofline roofline = product_roofline(priced);
  const auto steps = static_cast<double>(priced.recipe().training.optimizer.muon.steps);
  const ComputeDevice device = priced.setting().program.device;
  std::vector<double> seconds;
  for (const MuonTraffic& of_rank : traffic_of(groups)) seconds.push_back(traffic_seconds(priced, of_rank));
  for (std::size_t i = 0; i < groups.distinct().size(); ++i) {
    const auto& [group, matrices] = groups.distinct()[i];
    const double bytes =
        static_cast<double>(group.shard()) * pass_bytes(group.types, device) * priced.program().traffic.optimizer;
    const std::vector<double> products = matrices.sums(
        [&](const MatrixSize& size) { return roofline.seconds(orthogonalize_work(roofline, size, steps, device)); });
    const double update = most_of(products) + priced.roofline.pass(bytes).seconds;
    const double of_group = with_copies(priced, group, update);
    for (std::size_t rank = 0; rank < groups.ranks(); ++rank)
      seconds[rank] += static_cast<double>(groups.counts(rank)[i]) * of_group;
  }
  return seconds;
}

}  // namespace llmtrain
