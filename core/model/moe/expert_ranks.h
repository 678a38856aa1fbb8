// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/graph/exchange_method.h"

namespace llmtrain {

// Rows on their way between ranks, while this one computes. Keeps the memory of what is sent and received; destroyed
// before wait() has returned, it waits itself.
class RowTransfer {
 public:
  RowTransfer() = default;
  virtual ~RowTransfer() = default;
  RowTransfer(const RowTransfer&) = delete;
  RowTransfer& operator=(const RowTransfer&) = delete;

  // Ends what other steps wait for and starts the next one, where rows go in several steps: call it before computing.
  // Blocks for the former.
  virtual void advance() {}
  // Blocks until all rows are received; releases those that were sent. Call once.
  virtual at::Tensor wait() = 0;
};

// How many rows go to the experts of other ranks, by position or by position and expert. Results come back the same
// way.
struct RowNumbers {
  std::vector<std::int64_t> own;       // of this rank, by the position of their experts
  std::vector<std::int64_t> arriving;  // at this rank's experts, by the position that they come from
  std::vector<std::int64_t> relayed;   // of others and for others, in an order that ExpertRanks defines; none: directly
};
enum class RowsWay { to_experts, from_experts };

// The ranks that share the experts of every layer, as seen from one of them: each holds equally many consecutive
// experts, and sends the rows of its tokens to those of the others. All ranks make the same calls in the same order.
class ExpertRanks {
 public:
  virtual ~ExpertRanks() = default;

  virtual std::int64_t ranks() const = 0;

  // Takes how many rows this rank has for each of equally many experts of each position, and returns that of all ranks
  // that send to or through this one. Blocks.
  virtual RowNumbers exchange_numbers(std::vector<std::int64_t> own) const = 0;
  // Starts to send consecutive rows for each position and to receive those from each into `result`, by position:
  // `numbers.own` and `numbers.arriving` of them on the way to the experts, the reverse on the way back. Both tensors
  // are contiguous. Does not block.
  virtual std::unique_ptr<RowTransfer> start_exchange(RowsWay way, const at::Tensor& rows, const RowNumbers& numbers,
                                                      const at::Tensor& result) const = 0;
};

// Decides how rows go to the experts and back, from micro-batch to micro-batch, where a recipe leaves it open; one for
// all layers of a rank. All ranks that share experts, or parts of them, are given the same and decide the same.
class ExchangeChooser {
 public:
  ExchangeChooser() = default;
  virtual ~ExchangeChooser() = default;
  ExchangeChooser(const ExchangeChooser&) = delete;
  ExchangeChooser& operator=(const ExchangeChooser&) = delete;

  // Whether choose() may answer that exchanges are hierarchical; the same until the end of a step.
  virtual bool may_relay() const = 0;
  // The method for a micro-batch of which none of these ranks sends more than `fullest` rows to one expert.
  virtual ExchangeMethod choose(std::int64_t fullest) const = 0;
  // So long rows of such a micro-batch were on their way to the experts, at the experts and on their way back. The
  // seconds are asked for at the step's end, since a GPU may not know them yet.
  virtual void took(std::int64_t fullest, std::function<double()> seconds) = 0;
};

// Ranks that have equally many rows each, as seen from one of them. All ranks make the same calls in the same order,
// and every call blocks until its result is available; tensors are contiguous. Sums run in the order of the positions,
// so all ranks get the same bits.
class RowRanks {
 public:
  virtual ~RowRanks() = default;

  virtual std::int64_t ranks() const = 0;
  virtual std::int64_t position() const = 0;

  virtual at::Tensor gather_rows(const at::Tensor& part) const = 0;        // [R, …] → [ranks·R, …], by position
  virtual at::Tensor scatter_sum_rows(const at::Tensor& whole) const = 0;  // [ranks·R, …] → this rank's [R, …]
};

// The other ranks of a layer with experts; null where this rank is alone, but for `features` of experts whose split may
// change, which may then be this rank alone. They outlive the layer.
struct MixtureRanks {
  const ExpertRanks* experts = nullptr;  // have the experts that are not here
  const RowRanks* features = nullptr;    // split the matrices of this rank's experts
  const RowRanks* tokens = nullptr;      // hold the other tokens of the micro-batch
  std::int64_t overlap = 1;              // the parts into which rows are cut on their way to other ranks' experts
  ExchangeChooser* chooser = nullptr;    // decides instead, and how rows go
};

}  // namespace llmtrain
