// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "parallel/comm/communicator.h"

namespace llmtrain {

// Lets ranks that repeat equal rounds of work end it after the same round when one of them is asked to. They exchange
// before the first round and then a few times per second, by the pace of the first rank, so that short rounds cost no
// exchange each.
class StopAgreement {
 public:
  using Clock = std::chrono::steady_clock;

  // The communicator must outlive this.
  explicit StopAgreement(Communicator& communicator) : communicator_(communicator) {}

  // Before each round, on all ranks: whether all end here. `asks` says it of this rank, and is called where the ranks
  // exchange, in the same rounds on all of them. Collective; blocks.
  bool ends(const std::function<bool()>& asks);

 private:
  std::int64_t rounds_until_next(Clock::time_point now) const;

  Communicator& communicator_;
  std::int64_t rounds_ = 0;  // from the last exchange to the next
  std::int64_t left_ = 0;    // of them
  Clock::time_point last_{};
};

}  // namespace llmtrain
