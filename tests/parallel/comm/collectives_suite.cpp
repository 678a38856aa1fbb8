// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/parallel/comm/numbers.h"
#include "tests/parallel/comm/rank_harness.h"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

// Empty, odd, and on both sides of the sizes that backends transfer at once or in pieces.
const std::vector<std::int64_t> sizes{0, 1, 3, 257, 2050, 33001};

using Work = std::function<void(Communicator&, ElementType, std::int64_t)>;

void for_all(const Work& work) {
  for (const int ranks : rank_counts()) {
    on_ranks(ranks, [&](Communicator& communicator) {
      for (const ElementType type : all_types()) {
        for (const std::int64_t size : sizes) work(communicator, type, size);
      }
    });
  }
}

std::string name(const char* collective, ElementType type, std::int64_t size) {
  return std::string(collective) + " of " + std::to_string(size) + " " + std::string(element_name(type));
}

// Fits all types for up to 8 ranks: sums stay below 2^4 in magnitude.
double value(ElementType type, int rank, std::int64_t index) {
  return type == ElementType::uint8 || rank < 4 ? small_number(type, rank, index) : 0;
}

double combined(Reduction reduction, ElementType type, const std::vector<int>& ranks, std::int64_t index) {
  double result = value(type, ranks.front(), index);
  for (std::size_t i = 1; i < ranks.size(); ++i) {
    const double next = value(type, ranks[i], index);
    result = reduction == Reduction::sum   ? result + next
             : reduction == Reduction::max ? std::max(result, next)
                                           : std::min(result, next);
  }
  return result;
}

void check_all_reduce(Communicator& communicator, ElementType type, std::int64_t size, Reduction reduction) {
  const Group& world = communicator.world();
  Values data(type, size, static_cast<int>(size % 4)), expected(type, size);
  for (std::int64_t i = 0; i < size; ++i) {
    data.set(i, value(type, communicator.rank(), i));
    expected.set(i, combined(reduction, type, world.ranks(), i));
  }
  communicator.all_reduce(world, Purpose::data_parallel, data.array(), reduction).wait();
  expect(data == expected, name("all_reduce", type, size));
}

}  // namespace

TEST_CASE("all_reduce gives every rank the combination") {
  for_all([](Communicator& communicator, ElementType type, std::int64_t size) {
    for (const Reduction reduction : {Reduction::sum, Reduction::max, Reduction::min})
      check_all_reduce(communicator, type, size, reduction);
  });
}

TEST_CASE("all_gather concatenates the parts, also in place") {
  for_all([](Communicator& communicator, ElementType type, std::int64_t size) {
    const Group& world = communicator.world();
    Values input(type, size, 1), output(type, size * world.size()), expected(type, size * world.size());
    for (int rank = 0; rank < world.size(); ++rank) {
      for (std::int64_t i = 0; i < size; ++i) expected.set(rank * size + i, small_number(type, rank, i));
    }
    Values in_place(type, size * world.size(), 2);
    for (std::int64_t i = 0; i < size; ++i) {
      input.set(i, small_number(type, communicator.rank(), i));
      in_place.set(communicator.rank() * size + i, small_number(type, communicator.rank(), i));
    }
    communicator.all_gather(world, Purpose::data_parallel, input.array(), output.array()).wait();
    expect(output == expected, name("all_gather", type, size));
    const Array own = in_place.part(communicator.rank() * size, size);
    communicator.all_gather(world, Purpose::data_parallel, own, in_place.array()).wait();
    expect(in_place == expected, name("all_gather in place", type, size));
  });
}

TEST_CASE("reduce_scatter gives each rank its part of the combination, also in place") {
  for_all([](Communicator& communicator, ElementType type, std::int64_t size) {
    const Group& world = communicator.world();
    const std::int64_t begin = communicator.rank() * size;
    Values input(type, size * world.size(), 3), output(type, size), expected(type, size);
    for (std::int64_t i = 0; i < input.count(); ++i) input.set(i, value(type, communicator.rank(), i));
    for (std::int64_t i = 0; i < size; ++i) expected.set(i, combined(Reduction::sum, type, world.ranks(), begin + i));
    const Values before = input;
    communicator.reduce_scatter(world, Purpose::data_parallel, input.array(), output.array()).wait();
    expect(output == expected, name("reduce_scatter", type, size));
    expect(input == before, name("reduce_scatter's input", type, size));
    const Array own = input.part(begin, size);
    communicator.reduce_scatter(world, Purpose::data_parallel, input.array(), own).wait();
    expect(input.has_at(begin, expected), name("reduce_scatter in place", type, size));
  });
}

TEST_CASE("all_to_all gives part i to rank i") {
  for_all([](Communicator& communicator, ElementType type, std::int64_t size) {
    const Group& world = communicator.world();
    Values input(type, size * world.size()), output(type, size * world.size(), 1), expected(type, input.count());
    for (int other = 0; other < world.size(); ++other) {
      for (std::int64_t i = 0; i < size; ++i) {
        input.set(other * size + i, small_number(type, 10 * communicator.rank() + other, i));
        expected.set(other * size + i, small_number(type, 10 * other + communicator.rank(), i));
      }
    }
    communicator.all_to_all(world, Purpose::expert, input.array(), output.array()).wait();
    expect(output == expected, name("all_to_all", type, size));
  });
}

TEST_CASE("all_to_all_v transfers parts of different sizes, including empty ones") {
  for_all([](Communicator& communicator, ElementType type, std::int64_t size) {
    const Group& world = communicator.world();
    const auto count = [&](int from, int to) { return (from + 2 * to) % 3 == 0 ? 0 : size + from - to + 8; };
    std::vector<std::int64_t> input_counts, output_counts;
    std::int64_t inputs = 0, outputs = 0;
    for (int other = 0; other < world.size(); ++other) {
      inputs += input_counts.emplace_back(count(communicator.rank(), other));
      outputs += output_counts.emplace_back(count(other, communicator.rank()));
    }
    Values input(type, inputs), output(type, outputs), expected(type, outputs);
    std::int64_t next_input = 0, next_output = 0;
    for (int other = 0; other < world.size(); ++other) {
      for (std::int64_t i = 0; i < count(communicator.rank(), other); ++i)
        input.set(next_input++, small_number(type, communicator.rank() + 3 * other, i));
      for (std::int64_t i = 0; i < count(other, communicator.rank()); ++i)
        expected.set(next_output++, small_number(type, other + 3 * communicator.rank(), i));
    }
    const AllToAllCounts counts{input_counts, output_counts};
    communicator.all_to_all_v(world, Purpose::expert, input.array(), output.array(), counts).wait();
    expect(output == expected, name("all_to_all_v", type, size));
  });
}

TEST_CASE("broadcast gives every rank the root's values, from any root") {
  for_all([](Communicator& communicator, ElementType type, std::int64_t size) {
    const Group& world = communicator.world();
    for (int root = 0; root < world.size(); ++root) {
      Values data(type, size, 1), expected(type, size);
      for (std::int64_t i = 0; i < size; ++i) {
        data.set(i, small_number(type, communicator.rank(), i));
        expected.set(i, small_number(type, root, i));
      }
      communicator.broadcast(world, Purpose::control, data.array(), root).wait();
      expect(data == expected, name("broadcast", type, size));
    }
  });
}
