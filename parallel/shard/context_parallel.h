// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/model/context_ranks.h"
#include "kernels/sequence_part.h"
#include "parallel/comm/communicator.h"
#include "parallel/layout/layout.h"

namespace llmtrain {

// The tokens that position `position` of `ranks` has of a sequence: of 2·ranks chunks those numbered `position` and
// 2·ranks − 1 − position. A token's attention costs as many products as it sees keys, so that a rank with an early
// chunk gets a late one: all have the same work. The early chunks are of one size and the late ones of another, which
// is 1 more where the length is not a multiple of 2·ranks. It is a multiple of `ranks`.
kernels::SequencePart context_part(std::int64_t sequence_length, int position, int ranks);

// Context parallelism by gathering: keys and values of all positions come together for each attention, in the forward
// and again in the backward, which then sums their gradients into the ranks that have the tokens (as in Llama 3's
// training, arXiv 2407.21783, section 3.3.2). Copied freely.
class ContextParallel final : public ContextRanks {
 public:
  // Blocks until all ranks of the world have called it. The communicator outlives this.
  ContextParallel(Communicator& communicator, const Layout& layout);

  int ranks() const { return early_.size(); }
  int position() const { return early_.position(); }
  // What this rank has of a sequence.
  kernels::SequencePart part(std::int64_t sequence_length) const;

  KeysAndValues gather(const KeysAndValues& own) const override;
  void scatter_sum(KeysAndValues gradients, const KeysAndValues& own) const override;

 private:
  // One chunk of every rank, consecutive in the sequence: rows of the exchanged tensor, and the same of this rank.
  struct Chunks {
    const Group& group;  // in the order of the chunks
    std::int64_t first;
    std::int64_t own_first;
    std::int64_t length;  // of one chunk
  };
  std::vector<Chunks> chunks(std::int64_t sequence_length) const;

  Communicator* communicator_;
  Group early_, late_;  // the same ranks, in ascending and in descending order
};

}  // namespace llmtrain
