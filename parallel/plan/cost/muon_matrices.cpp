// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/muon_matrices.h"

#include <deque>
#include <numeric>
#include <utility>

#include "core/graph/sharding.h"
#include "parallel/layout/state_pieces.h"

namespace llmtrain {
namespace {

using Kind = StateGroup::Kind;

MatrixSize matrix_size(const Parameter& parameter, std::int64_t local_elements, std::int64_t matrices) {
  return {static_cast<double>(local_elements) / static_cast<double>(matrices),
          static_cast<double>(parameter.shape[parameter.shape.size() - 2]),
          static_cast<double>(parameter.shape.back())};
}

// Whether the matrices of two groups are, in their order, and where their states are.
bool are_equal(const Graph& graph, const StateGroup& a, const StateGroup& b) {
  const auto is_same = [&](std::size_t left, std::size_t right) {
    return graph.parameters[left].shape == graph.parameters[right].shape;
  };
  return a.kind == b.kind && a.stays == b.stays && a.sizes == b.sizes &&
         std::ranges::equal(a.parameters, b.parameters, is_same);
}

}  // namespace

MuonMatrices::MuonMatrices(const Partition& partition, const StateGroup& group)
    : is_of_experts_(group.kind == Kind::experts),
      splits_(static_cast<std::size_t>(is_of_experts_ ? shard_degrees(partition.mesh).expert_tensor
                                                      : partition.mesh.tensor)) {
  const Graph& graph = *partition.graph;
  const ShardDegrees degrees = shard_degrees(partition.mesh);
  const MatrixCuts cuts(matrices_of(graph, group, degrees), group.flat());
  for (const std::int64_t elements : cuts.exchanged_elements())
    cut_bytes_.push_back(exact_bytes * static_cast<double>(elements));
  std::vector<std::uint32_t> size_of;  // by matrix, an index into sizes_
  size_of.reserve(cuts.matrices().size());
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const Parameter& parameter = graph.parameters[group.parameters[i]];
    const std::int64_t count = local_matrices(parameter, degrees);
    const MatrixSize size = matrix_size(parameter, group.sizes[i], count);
    const auto known = std::ranges::find(sizes_, size);
    size_of.insert(size_of.end(), static_cast<std::size_t>(count), static_cast<std::uint32_t>(known - sizes_.begin()));
    if (known == sizes_.end()) sizes_.push_back(size);
  }
  sort(cuts, size_of);
}

// By counting, so that the time is linear in matrices and shards.
void MuonMatrices::sort(const MatrixCuts& cuts, const std::vector<std::uint32_t>& size_of) {
  const auto list_of = [&](std::size_t matrix) {
    return 2 * static_cast<std::size_t>(cuts.home(matrix)) + (cuts.is_cut(matrix) ? 1 : 0);
  };
  begins_.resize(2 * shards() + 1);
  for (std::size_t matrix = 0; matrix < size_of.size(); ++matrix) ++begins_[list_of(matrix) + 1];
  std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
  std::vector<std::size_t> next = begins_;
  sorted_.resize(size_of.size());
  for (std::size_t matrix = 0; matrix < size_of.size(); ++matrix) sorted_[next[list_of(matrix)]++] = size_of[matrix];
}

template <class Visit>
void MuonMatrices::for_batches(std::size_t shard, Visit visit) const {
  // Whole and cut matrices are not mixed in a batch: a step transforms the former while the parts of the latter travel.
  for (const std::size_t list : {2 * shard, 2 * shard + 1}) {
    for (std::size_t begin = begins_[list]; begin < begins_[list + 1]; begin += splits_)
      visit(std::span(sorted_).subspan(begin, std::min(splits_, begins_[list + 1] - begin)));
  }
}

std::vector<double> MuonMatrices::values(const Value& value) const {
  std::vector<double> values;
  for (const MatrixSize& size : sizes_) values.push_back(value(size));
  return values;
}

std::vector<double> MuonMatrices::split_bytes() const {
  std::vector<double> sent(shards() * splits_);
  if (splits_ == 1) return sent;
  const std::vector<double> bytes = values([](const MatrixSize& size) { return exact_bytes * size.local; });
  for (std::size_t shard = 0; shard < shards(); ++shard) {
    for_batches(shard, [&](std::span<const std::uint32_t> matrices) {
      double all = 0;
      for (const std::uint32_t matrix : matrices) all += bytes[matrix];
      for (std::size_t position = 0; position < splits_; ++position) {
        const double own = position < matrices.size() ? bytes[matrices[position]] : 0;
        // First its parts of the others' matrices, afterwards to each of them a part of its own one's result.
        sent[shard * splits_ + position] += all - own + static_cast<double>(splits_ - 1) * own;
      }
    });
  }
  return sent;
}

std::vector<double> MuonMatrices::largest(const Value& value) const {
  const std::vector<double> of_size = values(value);
  std::vector<double> most(shards());
  for (std::size_t shard = 0; shard < shards(); ++shard)
    for (std::size_t i = begins_[2 * shard]; i < begins_[2 * shard + 2]; ++i)
      most[shard] = std::max(most[shard], of_size[sorted_[i]]);
  return most;
}

std::vector<double> MuonMatrices::sums(const Value& value) const {
  const std::vector<double> of_size = values(value);
  std::vector<double> sums(shards());
  for (std::size_t shard = 0; shard < shards(); ++shard) {
    for_batches(shard, [&](std::span<const std::uint32_t> matrices) {
      // A batch has one matrix for each tensor rank; all wait for the largest.
      double most = 0;
      for (const std::uint32_t matrix : matrices) most = std::max(most, of_size[matrix]);
      sums[shard] += most;
    });
  }
  return sums;
}

MuonGroups::MuonGroups(const Partition& partition) : counts_(static_cast<std::size_t>(partition.mesh.pipeline)) {
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage) {
    for (const StateGroup& group : partition.groups[stage]) {
      if (!group.is_muon) continue;
      const std::size_t index = index_of(partition, group);
      std::vector<std::size_t>& counts = counts_[partition.rank_of(stage)];
      counts.resize(std::max(counts.size(), index + 1));
      ++counts[index];
    }
  }
  for (std::vector<std::size_t>& counts : counts_) counts.resize(distinct_.size());
}

std::size_t MuonGroups::index_of(const Partition& partition, const StateGroup& group) {
  const auto known = std::ranges::find_if(
      distinct_, [&](const Group& other) { return are_equal(*partition.graph, other.group, group); });
  const auto index = static_cast<std::size_t>(known - distinct_.begin());
  if (known == distinct_.end()) distinct_.push_back({group, MuonMatrices(partition, group)});
  return index;
}

namespace {

// What ShardedMatrices reads and writes on a rank, and what that leaves in memory.
class PieceWalk {
 public:
  // `owned` of the flat memory; `behind`: how many reads and writes are under way when the next one begins.
  PieceWalk(const StatePieces& pieces, const FlatInterval& owned, std::size_t behind)
      : pieces_(pieces), owned_(owned), behind_(behind), states_(static_cast<std::size_t>(pieces.count())) {
    for (std::int64_t i = 0; i < pieces.count(); ++i)
      state(i).left = intersection(pieces.piece(i), {0, owned.count()}).count();
  }

  void read(const FlatInterval& elements) {
    for_pieces(elements, [&](std::int64_t i, const FlatInterval&) {
      if (std::exchange(state(i).is_held, true)) return;
      ++held_.count;
      held_.bytes += pieces_.piece_bytes(i);
    });
    most_.join(held_);
    end({});
  }

  void write(const FlatInterval& elements) {
    std::vector<std::int64_t> completed;
    for_pieces(elements, [&](std::int64_t i, const FlatInterval& part) {
      if ((state(i).left -= part.count()) == 0) completed.push_back(i);
    });
    end(std::move(completed));
  }

  const HeldPieces& most() const { return most_; }

 private:
  struct State {
    std::int64_t left = 0;
    bool is_held = false;
  };

  State& state(std::int64_t piece) { return states_[static_cast<std::size_t>(piece)]; }
  template <class Visit>
  void for_pieces(const FlatInterval& elements, Visit visit) {
    const FlatInterval own = intersection(elements, owned_);
    const FlatInterval all{own.begin - owned_.begin, own.end - owned_.begin};
    for (std::int64_t i = all.begin / StatePieces::most; i * StatePieces::most < all.end; ++i)
      visit(i, intersection(pieces_.piece(i), all));
  }
  void end(std::vector<std::int64_t> completed) {
    under_way_.push_back(std::move(completed));
    for (; under_way_.size() > behind_; under_way_.pop_front()) {
      for (const std::int64_t piece : under_way_.front()) {
        --held_.count;
        held_.bytes -= pieces_.piece_bytes(piece);
      }
    }
  }

  const StatePieces& pieces_;
  FlatInterval owned_;
  std::size_t behind_;
  std::vector<State> states_;
  std::deque<std::vector<std::int64_t>> under_way_;
  HeldPieces held_, most_;
};

// The matrices of which a shard has elements.
std::span<const FlatInterval> matrices_in(const MatrixCuts& cuts, const FlatInterval& place) {
  const std::vector<FlatInterval>& all = cuts.matrices();
  const auto first = std::ranges::partition_point(all, [&](const FlatInterval& it) { return it.end <= place.begin; });
  const auto last = std::ranges::partition_point(all, [&](const FlatInterval& it) { return it.begin < place.end; });
  return first < last ? std::span(first, last) : std::span<const FlatInterval>();
}

// In the order of ShardedMatrices::for_each(). `batch`: matrices that tensor ranks take at once.
void walk(const MatrixCuts& cuts, std::int64_t shard, const FlatInterval& owned, std::size_t batch, PieceWalk& pieces) {
  const std::span<const FlatInterval> matrices = matrices_in(cuts, owned);
  std::vector<FlatInterval> whole, here;
  if (cuts.has_cuts()) pieces.read({owned.begin, owned.begin});
  for (const FlatInterval& matrix : matrices) {
    const auto index = static_cast<std::size_t>(&matrix - cuts.matrices().data());
    if (cuts.home(index) != shard)
      pieces.read(matrix);
    else
      (cuts.is_cut(index) ? here : whole).push_back(matrix);
  }
  for (std::size_t first = 0; first < whole.size(); first += batch) {
    const std::span<const FlatInterval> at_once =
        std::span(whole).subspan(first, std::min(batch, whole.size() - first));
    for (const FlatInterval& matrix : at_once) pieces.read(matrix);
    for (const FlatInterval& matrix : at_once) pieces.write(matrix);
  }
  // Results are written after all of them.
  for (const FlatInterval& matrix : here) pieces.read(matrix);
}

StatePieces pieces_of(const Partition& partition, const StateGroup& group, bool is_gpu) {
  return state_pieces(group, file_has_master(group, partition.recipe.memory.offload, is_gpu));
}

}  // namespace

std::vector<HeldPieces> held_pieces(const Partition& partition, const StateGroup& group, bool is_gpu) {
  const FlatShards flat = group.flat();
  std::vector<HeldPieces> held(static_cast<std::size_t>(flat.ranks));
  if (!group.is_muon || partition.recipe.memory.offload.optimizer != StatesPlace::disk) return held;
  const ShardDegrees degrees = shard_degrees(partition.mesh);
  const MatrixCuts cuts(matrices_of(*partition.graph, group, degrees), flat);
  const StatePieces pieces = pieces_of(partition, group, is_gpu);
  if (pieces.count() == 0) return held;
  const bool is_of_experts = group.kind == StateGroup::Kind::experts;
  const auto batch = static_cast<std::size_t>(is_of_experts ? degrees.expert_tensor : degrees.tensor);
  for (std::int64_t shard = 0; shard < flat.ranks; ++shard) {
    PieceWalk of_shard(pieces, flat.shard(shard), is_gpu ? most_leaving_matrices : 0);
    walk(cuts, shard, flat.shard(shard), batch, of_shard);
    held[static_cast<std::size_t>(shard)] = of_shard.most();
  }
  return held;
}

PieceMemory piece_memory(const Partition& partition, std::int64_t pipeline_rank) {
  PieceMemory memory;
  const StateGroup* last = nullptr;
  for (auto stage = static_cast<std::size_t>(pipeline_rank); stage < partition.stages.size();
       stage += static_cast<std::size_t>(partition.mesh.pipeline))
    for (const StateGroup& group : partition.groups[stage]) {
      if (!group.is_muon || group.stays) continue;
      // Most stages have equal ones.
      if (last != nullptr && last->kind == group.kind && last->sizes == group.sizes) continue;
      last = &group;
      const StatePieces pieces = pieces_of(partition, group, true);
      if (pieces.count() > 0) memory.bytes = std::max(memory.bytes, pieces.piece_bytes(0));
      for (const HeldPieces& held : held_pieces(partition, group, true))
        memory.count = std::max(memory.count, held.count);
    }
  return memory;
}

}  // namespace llmtrain
