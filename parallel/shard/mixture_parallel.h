// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/model/moe/expert_ranks.h"
#include "parallel/comm/communicator.h"
#include "parallel/layout/layout.h"
#include "parallel/shard/exchange_tuner.h"

namespace llmtrain {

// RowRanks over a Communicator, which must outlive this. Copyable; copies share the group.
class RowParallel final : public RowRanks {
 public:
  RowParallel(Communicator& communicator, Group group, Purpose purpose)
      : communicator_(&communicator), group_(std::move(group)), purpose_(purpose) {}

  std::int64_t ranks() const override { return group_.size(); }
  std::int64_t position() const override { return group_.position(); }
  at::Tensor gather_rows(const at::Tensor& part) const override;
  at::Tensor scatter_sum_rows(const at::Tensor& whole) const override;
  // Sends `input[p]` consecutive elements to each position p, and receives `output[p]` from it. Blocks.
  void exchange(const at::Tensor& sent, std::span<const std::int64_t> input, const at::Tensor& received,
                std::span<const std::int64_t> output) const;

 private:
  Communicator* communicator_;
  Group group_;
  Purpose purpose_;
};

// The groups that layers with experts work with, as far as this rank is not alone in them; none in dense models.
// Copyable; copies share the groups.
class MixtureParallel {
 public:
  // Collective over the world; blocks. The communicator must outlive this.
  MixtureParallel(Communicator& communicator, const Layout& layout);

  // Valid as long as this object.
  MixtureRanks ranks() const;
  // The ranks that split the matrices of this rank's experts; none where it has all of them.
  const std::optional<RowParallel>& features() const { return features_; }
  // Of the exchange between expert ranks; null where the recipe leaves nothing open.
  ExchangeTuner* tuner() const { return tuner_.get(); }

 private:
  std::shared_ptr<ExchangeTuner> tuner_;  // outlives what asks it
  std::shared_ptr<const ExpertRanks> experts_;
  std::optional<RowParallel> features_, tokens_;
  std::int64_t overlap_ = 1;
};

}  // namespace llmtrain
