// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/graph/sharding.h"
#include "core/model/layers/context_ranks.h"
#include "core/model/layers/tensor_ranks.h"
#include "kernels/sequence_part.h"
#include "parallel/comm/communicator.h"
#include "parallel/layout/layout.h"
#include "parallel/shard/mixture_parallel.h"

namespace llmtrain {

// The ranks that hold the same parameters as this one and train on other samples. The ranks of one shard group hold one
// part of the states each (ZeRO); ranks at the same position of different shard groups hold the same part (HSDP).
// Copyable; copies share the groups.
class DataParallel {
 public:
  // Collective over the world; blocks. The communicator must outlive this. `experts`: of the ranks that hold the same
  // experts as this one.
  enum class Parameters { dense, experts };
  DataParallel(Communicator& communicator, const Layout& layout, Parameters parameters = Parameters::dense);

  int ranks() const { return data_.size(); }
  int position() const { return data_.position(); }
  int shards() const { return shard_.size(); }
  int shard() const { return shard_.position(); }
  int replicas() const { return replica_.size(); }
  int replica() const { return replica_.position(); }

  // Start collectives on flat, contiguous tensors, which must not be touched until the handle is done.
  Handle sum(const at::Tensor& whole) const;          // in place, over all ranks
  Handle sum_replicas(const at::Tensor& part) const;  // in place, over the ranks with the same part
  Handle largest(const at::Tensor& values) const;     // in place, over all ranks
  Handle scatter_sum(const at::Tensor& whole, const at::Tensor& part) const;  // this rank's part of the shards' sum
  Handle gather(const at::Tensor& part, const at::Tensor& whole) const;       // of all shards
  // Sends `input[p]` consecutive elements to the rank of each shard p, and receives `output[p]` from it.
  Handle exchange(const at::Tensor& sent, std::span<const std::int64_t> input, const at::Tensor& received,
                  std::span<const std::int64_t> output) const;

 private:
  Communicator* communicator_;
  Group data_, shard_, replica_;
};

// The ranks that hold the parts of the same tensors, and agree on these tensors' scales: of dense ones the tensor
// group, of experts that of all experts. Copyable; copies share the group.
class TensorParts {
 public:
  // The ranks that hold experts' parts. Collective over the world; blocks. The communicator must outlive this.
  TensorParts(Communicator& communicator, const Layout& layout);
  TensorParts(Communicator& communicator, Group group, Purpose purpose)
      : communicator_(&communicator), group_(std::move(group)), purpose_(purpose) {}

  std::int64_t ranks() const { return group_.size(); }
  // In place, over all of them; block.
  void sum(const at::Tensor& x) const;
  void largest(const at::Tensor& x) const;

 private:
  Communicator* communicator_;
  Group group_;
  Purpose purpose_;
};

// TensorRanks over a Communicator: the tensor group, and within it the neighbours that hold copies of the same units of
// what is repeated (Partition::copies_of()). Copyable; copies share the groups.
class TensorParallel final : public TensorRanks {
 public:
  // Collective over the world; blocks. The communicator must outlive this.
  TensorParallel(Communicator& communicator, const Layout& layout);

  std::int64_t ranks() const override { return group_.size(); }
  std::int64_t position() const override { return group_.position(); }
  ActivationRows rows() const { return rows_; }

  void sum(const at::Tensor& x) const override;
  void largest(const at::Tensor& x) const override;
  at::Tensor gather_rows(const at::Tensor& part) const override { return gather_rows(part, Purpose::tensor_parallel); }
  at::Tensor gather_rows(const at::Tensor& part, Purpose purpose) const;
  at::Tensor scatter_sum_rows(const at::Tensor& whole) const override;
  // Sums in place over the ranks with copies of the same units, where so many have (copy_counts()).
  void sum_copies(const at::Tensor& x, std::int64_t copies) const;
  // The group itself, to agree on scales, and to exchange parts of matrices.
  TensorParts parts() const;
  RowParallel row_ranks() const { return {*communicator_, group_, Purpose::tensor_parallel}; }

 private:
  Communicator* communicator_;
  Group group_;
  std::map<std::int64_t, Group> copies_;  // by how many there are
  ActivationRows rows_;
};

// The ranks that hold the stages of one copy of the model; stage i is on position i mod ranks(). Copyable; copies share
// the groups.
class PipelineParallel {
 public:
  // Collective over the world; blocks. The communicator must outlive this.
  PipelineParallel(Communicator& communicator, const Layout& layout);

  int ranks() const { return activations_.size(); }
  int position() const { return activations_.position(); }

  // Transfers between stages, matched in the order of the calls within each channel. Tensors are contiguous and must
  // not be touched until the handle is done.
  enum class Channel { activations, gradients };
  Handle send(Channel channel, const at::Tensor& tensor, int position) const;
  Handle receive(Channel channel, const at::Tensor& tensor, int position) const;

  // Sums in place over the positions that hold copies of a parameter (StateGroup::holders): only they call it, and for
  // several parameters in the same order.
  Handle sum_copies(const std::vector<std::size_t>& holders, const at::Tensor& tensor) const;

 private:
  const Group& group(Channel channel) const { return channel == Channel::activations ? activations_ : gradients_; }

  Communicator* communicator_;
  Group activations_, gradients_;
  std::map<std::vector<std::size_t>, Group> copies_;  // by the positions
};

// The tokens of a sequence on position `position` of `ranks`: chunks `position` and 2·ranks − 1 − position of 2·ranks
// chunks. The cost of a token's attention is proportional to the keys that it sees, so each rank gets an early and a
// late chunk: all ranks have the same work. Late chunks are one token longer than early ones if the length is not a
// multiple of 2·ranks. The length must be a multiple of `ranks`.
kernels::SequencePart context_part(std::int64_t sequence_length, int position, int ranks);

// Context parallelism by gathering: keys and values of all positions are gathered for each attention, in the forward
// and again in the backward, whose gradients are then reduce-scattered to the ranks with the tokens (as in Llama 3's
// training, arXiv 2407.21783, section 3.3.2). Copyable; copies share the groups.
class ContextParallel final : public ContextRanks {
 public:
  // Collective over the world; blocks. The communicator must outlive this.
  ContextParallel(Communicator& communicator, const Layout& layout);

  int ranks() const { return early_.size(); }
  int position() const { return early_.position(); }
  // This rank's part of a sequence.
  kernels::SequencePart part(std::int64_t sequence_length) const;

  KeysAndValues gather(const KeysAndValues& own) const override;
  void largest(const at::Tensor& x) const override;
  void scatter_sum(KeysAndValues gradients, const KeysAndValues& own) const override;

 private:
  // One chunk of every rank, consecutive in the sequence.
  struct Chunks {
    const Group& group;      // its ranks in the order of the chunks
    std::int64_t own_first;  // this rank's rows in its own tensors
    std::int64_t length;     // of one chunk
    at::Tensor whole, mine;  // the rows of all, and this rank's, in the exchanged tensor
  };
  std::vector<Chunks> chunks(const at::Tensor& both) const;

  Communicator* communicator_;
  Group early_, late_;  // the same ranks, in ascending and in descending order
};

// This rank's groups along each axis of the layout's mesh. Copyable; copies share the groups.
struct RankGroups {
  // Collective over the world; blocks. The communicator must have as many ranks as the layout and outlive this.
  RankGroups(Communicator& communicator, const Layout& layout)
      : mesh(layout.mesh()),
        context(communicator, layout),
        data(communicator, layout),
        expert_data(layout.recipe().model.moe ? DataParallel(communicator, layout, DataParallel::Parameters::experts)
                                              : data),
        tensor(communicator, layout),
        expert_parts(layout.recipe().model.moe ? TensorParts(communicator, layout) : tensor.parts()),
        pipeline(communicator, layout),
        mixture(communicator, layout),
        communicator_(&communicator) {}

  // The communicator of the whole world.
  Communicator& communicator() const { return *communicator_; }
  bool is_first() const { return communicator_->rank() == 0; }  // the rank that prints and writes
  // The values of every rank of the world, in rank order, so that all ranks can sum them identically. Blocks.
  std::vector<double> exchange(std::span<const double> values) const;

  // The ranks that hold the same parameters of a group, and those that hold the parts of its tensors.
  const DataParallel& data_of(StateGroup::Kind kind) const {
    return kind == StateGroup::Kind::experts ? expert_data : data;
  }
  TensorParts parts_of(StateGroup::Kind kind) const {
    return kind == StateGroup::Kind::experts ? expert_parts : tensor.parts();
  }
  // This rank's part of the parameters.
  ShardPlace shard_place() const {
    const auto [expert, expert_tensor] = expert_place(mesh, communicator_->rank());
    return {shard_degrees(mesh), tensor.position(), expert, expert_tensor};
  }

  Mesh mesh;
  ContextParallel context;
  DataParallel data;         // includes the context ranks, which hold the same parameters
  DataParallel expert_data;  // of routed experts; without any the same
  TensorParallel tensor;
  TensorParts expert_parts;  // of routed experts; without any the tensor group
  PipelineParallel pipeline;
  MixtureParallel mixture;

 private:
  Communicator* communicator_;
};

}  // namespace llmtrain
