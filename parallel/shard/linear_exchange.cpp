// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "parallel/shard/expert_exchange.h"
#include "parallel/shard/row_messages.h"

namespace llmtrain {
namespace {

class LinearTransfer final : public RowTransfer {
 public:
  explicit LinearTransfer(RowsUnderWay rows) : rows_(std::move(rows)) {}

  at::Tensor wait() override { return rows_.wait(); }

 private:
  RowsUnderWay rows_;
};

class LinearExchange final : public ExpertRanks {
 public:
  LinearExchange(Communicator& communicator, const Group& ranks) : messages_(communicator, ranks) {}

  std::int64_t ranks() const override { return messages_.ranks(); }

  RowNumbers exchange_numbers(std::vector<std::int64_t> own) const override {
    RowNumbers numbers{std::move(own), {}, {}};
    numbers.arriving = messages_.exchange(numbers.own);
    return numbers;
  }

  std::unique_ptr<RowTransfer> start_exchange(RowsWay way, const at::Tensor& rows, const RowNumbers& numbers,
                                              const at::Tensor& result) const override {
    const bool leaves = way == RowsWay::to_experts;
    const auto& sent = leaves ? numbers.own : numbers.arriving;
    const auto& received = leaves ? numbers.arriving : numbers.own;
    return std::make_unique<LinearTransfer>(messages_.start(rows, sent, result, received));
  }

 private:
  RowMessages messages_;
};

}  // namespace

std::shared_ptr<const ExpertRanks> make_linear_exchange(Communicator& communicator, const Group& ranks) {
  return std::make_shared<LinearExchange>(communicator, ranks);
}

}  // namespace llmtrain
