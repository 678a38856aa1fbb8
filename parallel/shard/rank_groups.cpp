// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/rank_groups.h"

#include <cstddef>
#include <cstdint>

namespace llmtrain {

std::vector<double> RankGroups::exchange(std::span<const double> values) const {
  std::vector<double> all(values.size() * static_cast<std::size_t>(communicator_->size()));
  const auto bytes = [](std::size_t count) { return static_cast<std::int64_t>(count * sizeof(double)); };
  communicator_
      ->all_gather(communicator_->world(), Purpose::control,
                   ConstArray{values.data(), bytes(values.size()), ElementType::uint8},
                   Array{all.data(), bytes(all.size()), ElementType::uint8})
      .wait();
  return all;
}

}  // namespace llmtrain
