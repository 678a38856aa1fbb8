// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "parallel/comm/communicator.h"

namespace llmtrain {

// Rows on their way to other ranks, and the memory that theirs arrive in.
class RowsUnderWay {
 public:
  RowsUnderWay(at::Tensor rows, at::Tensor result, Handle handle)
      : rows_(std::move(rows)), result_(std::move(result)), handle_(std::move(handle)) {}

  // Blocks until all have arrived, and returns them; call it once.
  at::Tensor wait() {
    handle_.wait();
    rows_.reset();
    return std::move(result_);
  }

 private:
  at::Tensor rows_, result_;
  Handle handle_;  // last: it is done with the tensors' memory before they go
};

// All-to-alls of whole rows among the ranks of a group; the communicator must outlive this.
class RowMessages {
 public:
  RowMessages(Communicator& communicator, Group group) : communicator_(&communicator), group_(std::move(group)) {}

  std::int64_t ranks() const { return group_.size(); }
  // Starts to send `sent[p]` consecutive rows to each position p and to receive `received[p]` from each into `result`;
  // neither tensor may be touched until then. Both are contiguous.
  RowsUnderWay start(at::Tensor rows, std::span<const std::int64_t> sent, at::Tensor result,
                     std::span<const std::int64_t> received) const;
  // Equally many numbers for each position; returns those of the positions for this one. Blocks.
  std::vector<std::int64_t> exchange(std::span<const std::int64_t> numbers) const;

 private:
  Communicator* communicator_;
  Group group_;
};

}  // namespace llmtrain
