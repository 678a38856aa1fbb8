// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/model/context_ranks.h"
#include "kernels/sequence_part.h"
#include "parallel/comm/communicator.h"
#include "parallel/layout/layout.h"

namespace llmtrain {

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
  void scatter_sum(KeysAndValues gradients, const KeysAndValues& own) const override;

 private:
  // One chunk of every rank, consecutive in the sequence: their rows in the exchanged tensor and this rank's rows in
  // its own.
  struct Chunks {
    const Group& group;  // its ranks in the order of the chunks
    std::int64_t first;
    std::int64_t own_first;
    std::int64_t length;  // of one chunk
  };
  std::vector<Chunks> chunks(std::int64_t sequence_length) const;

  Communicator* communicator_;
  Group early_, late_;  // the same ranks, in ascending and in descending order
};

}  // namespace llmtrain
