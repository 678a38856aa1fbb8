// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>

#include "parallel/shard/expert_exchange.h"
#include "parallel/shard/row_messages.h"

namespace llmtrain {
namespace {

using Numbers = std::vector<std::int64_t>;

// From a table [outer, inner] of equally long groups of numbers one [inner, outer].
Numbers transposed(const Numbers& table, std::size_t outer, std::size_t inner) {
  const auto each = static_cast<std::ptrdiff_t>(table.size() / (outer * inner));
  Numbers result;
  for (std::size_t i = 0; i < inner; ++i) {
    for (std::size_t o = 0; o < outer; ++o) {
      const auto first = table.begin() + static_cast<std::ptrdiff_t>(o * inner + i) * each;
      result.insert(result.end(), first, first + each);
    }
  }
  return result;
}

// The sums of a table's rows [outer, inner].
Numbers row_sums(const Numbers& table, std::size_t outer) {
  const auto inner = static_cast<std::ptrdiff_t>(table.size() / outer);
  Numbers sums;
  for (auto first = table.begin(); first != table.end(); first += inner)
    sums.push_back(std::accumulate(first, first + inner, std::int64_t{0}));
  return sums;
}

// Blocks of rows in the order of a table [outer, inner] of their lengths, copied into the order [inner, outer].
std::vector<at::Tensor> transposed_blocks(const at::Tensor& rows, const Numbers& lengths, std::size_t outer) {
  const std::size_t inner = lengths.size() / outer;
  Numbers begins(lengths.size(), 0);
  std::partial_sum(lengths.begin(), lengths.end() - 1, begins.begin() + 1);
  std::vector<at::Tensor> blocks;
  for (std::size_t i = 0; i < inner; ++i)
    for (std::size_t o = 0; o < outer; ++o)
      blocks.push_back(rows.narrow(0, begins[o * inner + i], lengths[o * inner + i]));
  return blocks;
}

at::Tensor transposed(const at::Tensor& rows, const Numbers& lengths, std::size_t outer) {
  return at::cat(transposed_blocks(rows, lengths, outer));
}

at::Tensor empty_rows(const at::Tensor& like, const Numbers& numbers) {
  return at::empty({std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0}), like.size(1)}, like.options());
}

// The ranks of this node, and those with the same place on other nodes.
struct Ranks {
  RowMessages inside, across;

  auto node_size() const { return static_cast<std::size_t>(inside.ranks()); }
  auto nodes() const { return static_cast<std::size_t>(across.ranks()); }
};

// `numbers.own` is a table [nodes, node size], likewise `arriving`; `relayed` [node size, nodes] are the rows of each
// rank of this node for each node.
class ToExperts final : public RowTransfer {
 public:
  ToExperts(const Ranks& ranks, const at::Tensor& rows, const RowNumbers& numbers, at::Tensor result)
      : ranks_(ranks),
        relayed_(numbers.relayed),
        arriving_(row_sums(numbers.arriving, ranks.nodes())),
        result_(std::move(result)) {
    // Within the node first: each rank collects what its node has for the ranks with its own place, so that one message
    // for each node crosses the network instead of one for each rank.
    const Numbers received = row_sums(relayed_, ranks.node_size());
    const Numbers by_place = transposed(numbers.own, ranks.nodes(), ranks.node_size());
    first_ = ranks.inside.start(transposed(rows, numbers.own, ranks.nodes()), row_sums(by_place, ranks.node_size()),
                                empty_rows(rows, received), received);
  }

  void advance() override {
    if (second_) return;
    // Rows arrive by sender and leave by node: messages have to be contiguous.
    at::Tensor rows = transposed(first_->wait(), relayed_, ranks_.node_size());
    const Numbers by_node = transposed(relayed_, ranks_.node_size(), ranks_.nodes());
    second_ = ranks_.across.start(std::move(rows), row_sums(by_node, ranks_.nodes()), std::move(result_), arriving_);
  }

  at::Tensor wait() override {
    advance();
    return second_->wait();
  }

 private:
  const Ranks& ranks_;
  Numbers relayed_, arriving_;
  at::Tensor result_;
  std::optional<RowsUnderWay> first_, second_;
};

class FromExperts final : public RowTransfer {
 public:
  FromExperts(const Ranks& ranks, const at::Tensor& rows, const RowNumbers& numbers, at::Tensor result)
      : ranks_(ranks),
        by_node_(transposed(numbers.relayed, ranks.node_size(), ranks.nodes())),
        own_(transposed(numbers.own, ranks.nodes(), ranks.node_size())),
        result_(std::move(result)) {
    // The way back in reverse: across nodes first, in messages that are merged already.
    const Numbers received = row_sums(by_node_, ranks.nodes());
    first_ = ranks.across.start(rows, row_sums(numbers.arriving, ranks.nodes()), empty_rows(rows, received), received);
  }

  void advance() override {
    if (second_) return;
    at::Tensor rows = transposed(first_->wait(), by_node_, ranks_.nodes());
    const Numbers by_rank = transposed(by_node_, ranks_.nodes(), ranks_.node_size());
    at::Tensor received = empty_rows(rows, own_);
    second_ = ranks_.inside.start(std::move(rows), row_sums(by_rank, ranks_.node_size()), std::move(received),
                                  row_sums(own_, ranks_.node_size()));
  }

  at::Tensor wait() override {
    advance();
    at::cat_out(result_, transposed_blocks(second_->wait(), own_, ranks_.node_size()));
    return std::move(result_);
  }

 private:
  const Ranks& ranks_;
  Numbers by_node_, own_;  // tables [nodes, node size] and [node size, nodes]
  at::Tensor result_;
  std::optional<RowsUnderWay> first_, second_;
};

class HierarchicalExchange final : public ExpertRanks {
 public:
  HierarchicalExchange(Communicator& communicator, const Group& inside, const Group& across)
      : ranks_{RowMessages(communicator, inside), RowMessages(communicator, across)} {}

  std::int64_t ranks() const override { return ranks_.inside.ranks() * ranks_.across.ranks(); }

  RowNumbers exchange_numbers(std::vector<std::int64_t> own) const override {
    RowNumbers numbers{std::move(own), {}, {}};
    numbers.relayed = ranks_.inside.exchange(transposed(numbers.own, ranks_.nodes(), ranks_.node_size()));
    numbers.arriving = ranks_.across.exchange(transposed(numbers.relayed, ranks_.node_size(), ranks_.nodes()));
    return numbers;
  }

  std::unique_ptr<RowTransfer> start_exchange(RowsWay way, const at::Tensor& rows, const RowNumbers& numbers,
                                              const at::Tensor& result) const override {
    if (way == RowsWay::to_experts) return std::make_unique<ToExperts>(ranks_, rows, numbers, result);
    return std::make_unique<FromExperts>(ranks_, rows, numbers, result);
  }

 private:
  Ranks ranks_;
};

}  // namespace

std::shared_ptr<const ExpertRanks> make_hierarchical_exchange(Communicator& communicator, const Group& inside,
                                                              const Group& across) {
  return std::make_shared<HierarchicalExchange>(communicator, inside, across);
}

}  // namespace llmtrain
