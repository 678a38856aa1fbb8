// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "tests/parallel/comm/numbers.h"
#include "tests/parallel/comm/rank_harness.h"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

Values random_values(ElementType type, std::int64_t count, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::normal_distribution<double> normal(0, 3);
  Values values(type, count);
  for (std::int64_t i = 0; i < count; ++i) values.set(i, std::abs(normal(random)));
  return values;
}

// Summed in rank order in fp32, rounded once.
Values ordered_sum(ElementType type, std::int64_t count, int ranks) {
  std::vector<Values> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(random_values(type, count, rank));
  Values result(type, count);
  for (std::int64_t i = 0; i < count; ++i) {
    auto sum = static_cast<float>(inputs[0].get(i));
    for (std::size_t rank = 1; rank < inputs.size(); ++rank) sum += static_cast<float>(inputs[rank].get(i));
    result.set(i, sum);
  }
  return result;
}

const CommunicationCount& count_of(const std::vector<CommunicationCount>& counts, Purpose purpose,
                                   Collective collective) {
  for (const CommunicationCount& count : counts) {
    if (count.purpose == purpose && count.collective == collective) return count;
  }
  throw std::runtime_error("nothing counted for " + std::string(collective_name(collective)));
}

void expect_count(Communicator& communicator, Purpose purpose, Collective collective, double bytes) {
  const std::vector<CommunicationCount> counts = communicator.log().counts();
  const CommunicationCount& count = count_of(counts, purpose, collective);
  expect(count.calls == 1 && count.bytes == bytes,
         std::string(collective_name(collective)) + " counts " + std::to_string(count.bytes) + " bytes");
  expect(count.seconds >= 0 && count.waited_seconds >= 0, "time runs backwards");
}

}  // namespace

// Cases with the tag [ordered] are about the order of sums, which NCCL chooses itself.
TEST_CASE("sums are always bitwise equal to adding the ranks one after the other", "[ordered]") {
  for (const int ranks : rank_counts()) {
    for (const ElementType type : floating_types()) {
      for (const std::int64_t count : {31, 40001}) {
        const Values expected = ordered_sum(type, count, ranks);
        on_ranks(ranks, [&](Communicator& communicator) {
          const Values own = random_values(type, count, communicator.rank());
          for (int run = 0; run < 3; ++run) {
            Values data = own;
            communicator.all_reduce(communicator.world(), Purpose::data_parallel, data.array()).wait();
            expect(data == expected, "all_reduce of " + std::string(element_name(type)));
          }
        });
      }
    }
  }
}

TEST_CASE("scattered sums are bitwise equal to whole ones", "[ordered]") {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [](Communicator& communicator) {
      for (const ElementType type : floating_types()) {
        const std::int64_t part = 9001;
        const std::int64_t whole = part * communicator.size();
        Values input = random_values(type, whole, communicator.rank());
        Values output(type, part);
        communicator.reduce_scatter(communicator.world(), Purpose::data_parallel, input.array(), output.array()).wait();
        communicator.all_reduce(communicator.world(), Purpose::data_parallel, input.array()).wait();
        expect(input.has_at(communicator.rank() * part, output), std::string(element_name(type)));
      }
    });
  }
}

// Whoever sums them: a sum that is rounded after each rank would lose the halves, and one that does not saturate would
// be infinite or no number.
TEST_CASE("FP8 numbers are summed whole, rounded once, and saturate") {
  const ElementType type = ElementType::float8_e4m3;
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [&](Communicator& communicator) {
      // Numbers from 16 to 32 are 2 apart.
      const bool is_first = communicator.rank() == 0;
      Values data(type, 2), expected(type, 2);
      data.set(0, is_first ? 16 : 0.75);
      data.set(1, 300);
      expected.set(0, 16 + 0.75 * (ranks - 1));
      expected.set(1, std::min(300.0 * ranks, 448.0));
      Values scattered(type, 2 * ranks), own(type, 2);
      for (int i = 0; i < 2 * ranks; ++i) scattered.set(i, data.get(i % 2));
      communicator.reduce_scatter(communicator.world(), Purpose::data_parallel, scattered.array(), own.array()).wait();
      expect(own == expected, "reduce_scatter of FP8");
      communicator.all_reduce(communicator.world(), Purpose::data_parallel, data.array()).wait();
      expect(data == expected, "all_reduce of FP8");
    });
  }
}

TEST_CASE("bytes are counted exactly") {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [ranks](Communicator& communicator) {
      const Group& world = communicator.world();
      communicator.log().reset_counts();
      const std::int64_t part = 840;
      Values whole(ElementType::bfloat16, part * ranks), own(ElementType::bfloat16, part);
      communicator.all_reduce(world, Purpose::data_parallel, whole.array()).wait();
      communicator.all_gather(world, Purpose::tensor_parallel, own.array(), whole.array()).wait();
      communicator.reduce_scatter(world, Purpose::tensor_parallel, whole.array(), own.array()).wait();
      Values other(ElementType::bfloat16, part * ranks);
      communicator.all_to_all(world, Purpose::expert, whole.array(), other.array()).wait();
      communicator.broadcast(world, Purpose::control, own.array(), 0).wait();
      const double bytes = 2.0 * static_cast<double>(part);
      expect_count(communicator, Purpose::data_parallel, Collective::all_reduce, 2 * (ranks - 1) * bytes);
      expect_count(communicator, Purpose::tensor_parallel, Collective::all_gather, (ranks - 1) * bytes);
      expect_count(communicator, Purpose::tensor_parallel, Collective::reduce_scatter, (ranks - 1) * bytes);
      expect_count(communicator, Purpose::expert, Collective::all_to_all, (ranks - 1) * bytes);
      const bool is_sending = communicator.rank() == 0 && ranks > 1;
      expect_count(communicator, Purpose::control, Collective::broadcast, is_sending ? bytes : 0);
      expect(communicator.log().last_operations().back().state == OperationRecord::State::done, "the last is done");
      communicator.log().reset_counts();
    });
  }
}
