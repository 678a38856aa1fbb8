// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/model/moe/expert_ranks.h"
#include "parallel/comm/communicator.h"
#include "parallel/layout/layout.h"
#include "parallel/shard/exchange_tuner.h"
#include "parallel/shard/expert_splits.h"
#include "parallel/shard/row_parallel.h"
#include "parallel/shard/split_tuner.h"

namespace llmtrain {

// The groups that layers with experts work with, as far as this rank is not alone in them; none in dense models.
// Copyable; copies share the groups.
class MixtureParallel {
 public:
  // Collective over the world; blocks. The communicator must outlive this.
  MixtureParallel(Communicator& communicator, const Layout& layout);

  // Valid as long as this object.
  MixtureRanks ranks() const;
  // The ranks over which the states of this rank's experts are cut; none where it has all of them.
  const std::optional<RowParallel>& slices() const { return slices_; }
  // Null where their products are split as their states are.
  ExpertSplits* splits() const { return splits_.get(); }
  // Chooses among these splits; null where the recipe gives one.
  SplitTuner* split_tuner() const { return split_tuner_.get(); }
  // Chooses how expert ranks exchange rows; null where the recipe leaves nothing open.
  ExchangeTuner* tuner() const { return tuner_.get(); }

 private:
  std::shared_ptr<ExchangeTuner> tuner_;  // outlives what asks it
  std::shared_ptr<const ExpertRanks> experts_;
  std::shared_ptr<ExpertSplits> splits_;
  std::shared_ptr<SplitTuner> split_tuner_;
  std::optional<RowParallel> slices_, tokens_;
  std::int64_t overlap_ = 1;
};

}  // namespace llmtrain
