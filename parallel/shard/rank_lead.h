// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/shard/rank_groups.h"

namespace llmtrain {

// Ranks that share a model follow the one that has its logits, the first tensor rank of the last pipeline rank: what it
// decides of texts that grow, they hear from it. Where one rank has all, it leads itself.
class RankLead {
 public:
  // Collective over the world, which outlives this; blocks. Throws Error(internal_error) where ranks split sequences,
  // have copies of the model, or parts of its experts.
  explicit RankLead(const RankGroups& groups);

  // Whether this rank does.
  bool leads() const { return communicator_ == nullptr || communicator_->rank() == leader_; }
  bool has_followers() const { return communicator_ != nullptr; }
  // What the leading rank tells, on all ranks; what the others give is ignored. Collective; blocks.
  std::vector<std::int64_t> tell(std::vector<std::int64_t> words) const;

 private:
  Communicator* communicator_ = nullptr;  // null: there is one rank
  int leader_ = 0;
};

}  // namespace llmtrain
