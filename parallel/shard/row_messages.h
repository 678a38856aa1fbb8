// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "parallel/comm/communicator.h"

namespace llmtrain {

// All-to-alls of whole rows among the ranks of a group; the communicator must outlive this.
class RowMessages {
 public:
  RowMessages(Communicator& communicator, Group group) : communicator_(&communicator), group_(std::move(group)) {}

  std::int64_t ranks() const { return group_.size(); }
  // Starts to send `sent[p]` consecutive rows to each position p and to receive `received[p]` from each into `result`;
  // neither tensor may be touched until the handle is done. Both are contiguous.
  Handle start(const at::Tensor& rows, std::span<const std::int64_t> sent, const at::Tensor& result,
               std::span<const std::int64_t> received) const;
  // Equally many numbers for each position; returns those of the positions for this one. Blocks.
  std::vector<std::int64_t> exchange(std::span<const std::int64_t> numbers) const;

 private:
  Communicator* communicator_;
  Group group_;
};

}  // namespace llmtrain
