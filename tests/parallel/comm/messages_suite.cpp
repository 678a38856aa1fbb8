// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>

#include "core/base/error.h"
#include "tests/parallel/comm/numbers.h"
#include "tests/parallel/comm/rank_harness.h"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

Values filled(ElementType type, std::int64_t count, int seed) {
  Values values(type, count);
  for (std::int64_t i = 0; i < count; ++i) values.set(i, small_number(type, seed, i));
  return values;
}

// The `count` ranks, `stride` apart, of which `rank` is one.
std::vector<int> aligned_ranks(int rank, int count, int stride) {
  std::vector<int> ranks;
  const int first = rank - rank / stride % count * stride;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

}  // namespace

TEST_CASE("messages of all sizes and types pass around a ring in order") {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [](Communicator& communicator) {
      const Group& world = communicator.world();
      const int next = (communicator.rank() + 1) % world.size();
      const int previous = (communicator.rank() + world.size() - 1) % world.size();
      std::deque<Values> sent, received, expected;
      std::vector<Handle> handles;
      int seed = 0;
      for (const ElementType type : all_types()) {
        for (const std::int64_t size : {0, 1, 5, 4099, 33001}) {
          ++seed;
          sent.push_back(filled(type, size, seed + communicator.rank()));
          expected.push_back(filled(type, size, seed + previous));
          received.emplace_back(type, size, 1);
          handles.push_back(communicator.receive(world, Purpose::pipeline, received.back().array(), previous));
          handles.push_back(communicator.send(world, Purpose::pipeline, sent.back().array(), next));
        }
      }
      for (Handle& handle : handles) handle.wait();
      for (std::size_t i = 0; i < sent.size(); ++i) expect(received[i] == expected[i], "message " + std::to_string(i));
    });
  }
}

TEST_CASE("no rank leaves a barrier before all have reached it") {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [](Communicator& communicator) {
      const Group& world = communicator.world();
      for (int round = 0; round < 20; ++round) {
        // A message sent before the barrier has arrived after it.
        Values mine(ElementType::int32, 1), all(ElementType::int32, world.size());
        mine.set(0, round);
        Handle gather = communicator.all_gather(world, Purpose::control, mine.array(), all.array());
        communicator.barrier(world).wait();
        gather.wait();
        for (int rank = 0; rank < world.size(); ++rank) expect(all.get(rank) == round, "a rank came late");
      }
    });
  }
}

TEST_CASE("operations on several groups run concurrently and complete in any order") {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [](Communicator& communicator) {
      const int half = std::max(1, communicator.size() / 2);
      const bool is_even = communicator.size() % 2 == 0;
      const Group rows = communicator.make_group("rows", aligned_ranks(communicator.rank(), is_even ? half : 1, 1));
      const Group columns =
          communicator.make_group("columns", aligned_ranks(communicator.rank(), is_even ? 2 : 1, half));
      std::deque<Values> data, expected;
      std::vector<Handle> handles;
      for (int round = 0; round < 60; ++round) {
        const Group& group = round % 3 == 0 ? communicator.world() : round % 3 == 1 ? rows : columns;
        const std::int64_t size = 1 + 997 * (round % 5) * (round % 7);
        data.push_back(filled(ElementType::float32, size, communicator.rank() + round));
        expected.emplace_back(ElementType::float32, size);
        for (std::int64_t i = 0; i < size; ++i) {
          double sum = 0;
          for (const int rank : group.ranks()) sum += small_number(ElementType::float32, rank + round, i);
          expected.back().set(i, sum);
        }
        handles.push_back(communicator.all_reduce(group, Purpose::data_parallel, data.back().array()));
      }
      while (!handles.empty()) {
        handles.back().wait();
        handles.pop_back();
      }
      for (std::size_t i = 0; i < data.size(); ++i) expect(data[i] == expected[i], "all_reduce " + std::to_string(i));
    });
  }
}

TEST_CASE("operations that are started together are like others") {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [](Communicator& communicator) {
      std::vector<int> reversed = communicator.world().ranks();
      std::reverse(reversed.begin(), reversed.end());
      const Group group = communicator.make_group("reversed", reversed);
      const int size = communicator.size();
      Values sum = filled(ElementType::int32, 3001, 1), mine(ElementType::int32, 1), all(ElementType::int32, size);
      mine.set(0, communicator.rank());
      Handle first, second;
      communicator.together([&] {
        first = communicator.all_reduce(communicator.world(), Purpose::context, sum.array());
        second = communicator.all_gather(group, Purpose::context, mine.array(), all.array());
      });
      second.wait();
      first.wait();
      for (std::int64_t i = 0; i < sum.count(); ++i)
        expect(sum.get(i) == size * small_number(ElementType::int32, 1, i), "a sum");
      for (int rank = 0; rank < size; ++rank) expect(all.get(rank) == size - 1 - rank, "a gathered value");
    });
  }
}

TEST_CASE("polling completes an operation") {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [](Communicator& communicator) {
      Values data = filled(ElementType::float32, 200000, 1);
      Handle handle = communicator.all_reduce(communicator.world(), Purpose::control, data.array(), Reduction::max);
      while (!handle.done()) {
      }
      handle.wait();
      expect(handle.done(), "a handle that was waited for is done");
      expect(data == filled(ElementType::float32, 200000, 1), "values");
    });
  }
}

TEST_CASE("groups of the same ranks, in any order, are independent") {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [](Communicator& communicator) {
      std::vector<int> reversed = communicator.world().ranks();
      std::reverse(reversed.begin(), reversed.end());
      const Group first = communicator.make_group("first", reversed);
      const Group second = communicator.make_group("second", reversed);
      expect(first.position() == communicator.size() - 1 - communicator.rank(), "position");
      Values one(ElementType::int32, 1), two(ElementType::int32, 1);
      one.set(0, first.position() == 0 ? 1 : 0);
      two.set(0, second.position() == 0 ? 2 : 0);
      Handle later = communicator.broadcast(first, Purpose::control, one.array(), 0);
      communicator.broadcast(second, Purpose::control, two.array(), 0).wait();
      later.wait();
      expect(one.get(0) == 1 && two.get(0) == 2, "values of two groups mixed");
    });
  }
}

TEST_CASE("an invalid operation is refused before it starts") {
  on_ranks(rank_counts().front(), [](Communicator& communicator) {
    const Group& world = communicator.world();
    Values data(ElementType::float32, 3);
    communicator.log().reset_counts();
    const auto refused = [](const auto& work) {
      try {
        work();
      } catch (const Error& error) {
        return error.code() == ExitCode::internal_error;
      }
      return false;
    };
    const int beyond = world.size();
    expect(refused([&] { communicator.broadcast(world, Purpose::control, data.array(), beyond); }), "root");
    expect(refused([&] { communicator.send(world, Purpose::control, data.array(), -1); }), "position");
    expect(refused([&] { communicator.all_gather(world, Purpose::control, data.array(), {}); }), "type and count");
    expect(refused([&] { communicator.all_reduce(Group(), Purpose::control, data.array()); }), "group");
    expect(refused([&] { communicator.make_group("twice", {communicator.rank(), communicator.rank()}); }), "twice");
    expect(refused([&] { communicator.make_group("outside", {communicator.rank(), beyond}); }), "outside");
    expect(communicator.log().counts().empty(), "a refused operation was counted");
  });
}
