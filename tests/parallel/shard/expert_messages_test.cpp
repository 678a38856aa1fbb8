// SPDX-License-Identifier: Apache-2.0
// How many messages exchanges of experts' rows send, and that rows arrive where they are meant to.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/backend.h"
#include "parallel/comm/local/local_world.h"
#include "parallel/shard/expert_exchange.h"
#include "tests/parallel/shard/shard_rank.h"

namespace llmtrain::test {
namespace {

constexpr int world_ranks = 16, ranks_of_node = 4;

struct Messages {
  int inside = 0, between = 0;  // nodes

  bool operator==(const Messages&) const = default;
};

// Counts a rank's messages, to the same node and to others: of an all-to-all one to each rank to which something goes.
class CountingCommunicator final : public LayeredCommunicator {
 public:
  explicit CountingCommunicator(std::shared_ptr<Communicator> host) : LayeredCommunicator(std::move(host)) {
    set_world(Group(std::make_shared<LayerGroup>(this->host()->world())));
  }

  Messages take() { return std::exchange(messages_, {}); }

 private:
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int,
                                           GroupUse use) override {
    return std::make_shared<LayerGroup>(host()->make_group(name, std::move(ranks), use));
  }

  std::shared_ptr<PendingOperation> start(Request request) override {
    for (int position = 0; position < request.group.size(); ++position) {
      if (position == request.group.position() || request.input_counts[static_cast<std::size_t>(position)] == 0)
        continue;
      const bool shares_node = request.group.rank_at(position) / ranks_of_node == rank() / ranks_of_node;
      ++(shares_node ? messages_.inside : messages_.between);
    }
    return start_on(*host(), host_request(std::move(request)));
  }

  Messages messages_;
};

// Relays while it says so, and asks for linear exchanges.
class LinearChooser final : public ExchangeChooser {
 public:
  bool may_relay() const override { return true; }
  ExchangeMethod choose(std::int64_t) const override { return {}; }
  void took(std::int64_t, std::function<double()>) override {}
};

struct Exchanges {
  std::shared_ptr<const ExpertRanks> linear, hierarchical;
};

Exchanges exchanges_of(Communicator& communicator) {
  std::vector<int> all, inside, across;
  const int node = communicator.rank() / ranks_of_node, place = communicator.rank() % ranks_of_node;
  for (int rank = 0; rank < world_ranks; ++rank) all.push_back(rank);
  for (int i = 0; i < ranks_of_node; ++i) inside.push_back(node * ranks_of_node + i);
  for (int i = 0; i < world_ranks / ranks_of_node; ++i) across.push_back(i * ranks_of_node + place);
  const Group direct = communicator.make_group("all", all), here = communicator.make_group("inside", inside);
  return {make_linear_exchange(communicator, direct),
          make_hierarchical_exchange(communicator, here, communicator.make_group("across", across))};
}

std::int64_t rows_between(int from, int to) { return 1 + (from + 2 * to) % 3; }

// What a rank sends to the experts of all others, or what these send to its own: every row names its way.
at::Tensor rows_of(int rank, RowsWay way) {
  std::vector<at::Tensor> rows;
  for (int other = 0; other < world_ranks; ++other) {
    const int from = way == RowsWay::to_experts ? rank : other, to = way == RowsWay::to_experts ? other : rank;
    rows.push_back(at::full({rows_between(from, to), 2}, 100.0 * from + to));
  }
  return at::cat(rows);
}

// The messages of one way to the experts and of the way back, after checking what has arrived.
std::vector<Messages> exchange(CountingCommunicator& communicator, const ExpertRanks& ranks, bool goes_directly) {
  std::vector<std::int64_t> own;
  for (int other = 0; other < world_ranks; ++other) own.push_back(rows_between(communicator.rank(), other));
  RowNumbers numbers = ranks.exchange_numbers(own);
  if (goes_directly) numbers.relayed.clear();
  communicator.take();
  const at::Tensor sent = rows_of(communicator.rank(), RowsWay::to_experts);
  const at::Tensor expected = rows_of(communicator.rank(), RowsWay::from_experts);
  const auto pass = [&](RowsWay way, const at::Tensor& rows, const at::Tensor& like) {
    return ranks.start_exchange(way, rows, numbers, at::empty(like.sizes(), like.options()))->wait();
  };
  const at::Tensor arrived = pass(RowsWay::to_experts, sent, expected);
  std::vector<Messages> messages{communicator.take()};
  const at::Tensor returned = pass(RowsWay::from_experts, arrived, sent);
  messages.push_back(communicator.take());
  // At the end on all ranks, which wait for each other before.
  if (!arrived.equal(expected) || !returned.equal(sent)) messages.clear();
  return messages;
}

// Whether ranks that are asked for hierarchical exchanges relay rows.
bool relays(std::int64_t devices_per_node) {
  Recipe recipe = small_recipe();
  recipe.model.moe = MixtureOfExpertsRecipe{.experts = 4, .ffn_hidden_size = 8};
  recipe.launch.ranks = 4;
  recipe.parallel.expert = 4;
  recipe.parallel.expert_all_to_all = AllToAll::hierarchical;
  const Layout layout(Partition::make(recipe, devices_per_node));
  std::vector<char> relayed(4);
  LocalWorld(4).run([&](Communicator& communicator) {
    const auto ranks = make_expert_ranks(communicator, layout, nullptr);
    relayed[static_cast<std::size_t>(communicator.rank())] = !ranks->exchange_numbers({1, 2, 3, 4}).relayed.empty();
  });
  CHECK(std::ranges::count(relayed, relayed.front()) == 4);
  return relayed.front() != 0;
}

}  // namespace

TEST_CASE("a hierarchical exchange sends a message to each node in place of one to each of its ranks", "[ranks]") {
  std::vector<std::vector<Messages>> linear(world_ranks), hierarchical(world_ranks), chosen(world_ranks);
  LocalWorld(world_ranks).run([&](Communicator& local) {
    CountingCommunicator communicator(std::shared_ptr<Communicator>(&local, [](Communicator*) {}));
    const Exchanges exchanges = exchanges_of(communicator);
    const LinearChooser chooser;
    const auto either = make_chosen_exchange(exchanges.linear, exchanges.hierarchical, chooser);
    const auto rank = static_cast<std::size_t>(communicator.rank());
    linear[rank] = exchange(communicator, *exchanges.linear, false);
    hierarchical[rank] = exchange(communicator, *exchanges.hierarchical, false);
    // Numbers that were relayed also serve rows that go directly.
    chosen[rank] = exchange(communicator, *either, true);
  });
  const Messages to_each{ranks_of_node - 1, world_ranks - ranks_of_node};
  const Messages by_node{ranks_of_node - 1, world_ranks / ranks_of_node - 1};
  for (std::size_t rank = 0; rank < world_ranks; ++rank) {
    INFO("rank " << rank);
    CHECK((linear[rank] == std::vector{to_each, to_each}));
    CHECK((hierarchical[rank] == std::vector{by_node, by_node}));
    CHECK((chosen[rank] == std::vector{to_each, to_each}));
  }
}

TEST_CASE("a hierarchical exchange of one node, or of one rank a node, is linear", "[ranks]") {
  CHECK(relays(2));
  CHECK_FALSE(relays(4));
  CHECK_FALSE(relays(1));
}

}  // namespace llmtrain::test
