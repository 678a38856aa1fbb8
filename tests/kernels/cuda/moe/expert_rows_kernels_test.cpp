// SPDX-License-Identifier: Apache-2.0
// The kernels that assign rows to choices of experts, run on the processor, against queues that are filled one choice
// after another.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/moe/expert_rows_kernels.h"
#include "tests/cuda_on_host/exact_array.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

using llmtrain::test::ExactArray;

struct Shape {
  std::int64_t tokens;
  int choices, experts;
  std::int64_t capacity = 1 << 30;
  bool has_order = false;
};

template <class T>
std::vector<T> copied(const ExactArray<T>& array, std::size_t count) {
  return {array.data(), array.data() + count};
}

// Expert 1 is chosen most often, the last one never, and every seventh choice is none.
struct Case {
  explicit Case(const Shape& s) : shape(s) {
    std::mt19937 engine{3};
    std::uniform_int_distribution<std::int64_t> any(0, std::max(0, s.experts - 2));
    for (std::size_t c = 0; c < count; ++c) chosen[c] = c % 7 == 5 ? -1 : c % 3 == 0 ? s.experts / 2 : any(engine);
    std::iota(order.data(), order.data() + s.tokens, 0);
    if (s.has_order) std::shuffle(order.data(), order.data() + s.tokens, engine);
  }

  void assign() {
    cuda_expert_row_kernels.assign({.chosen = chosen.data(),
                                    .order = shape.has_order ? order.data() : nullptr,
                                    .tokens = shape.tokens,
                                    .choices = shape.choices,
                                    .experts = shape.experts,
                                    .most = most,
                                    .rows = static_cast<std::int64_t>(rows),
                                    .counts = counts.data(),
                                    .ends = ends.data(),
                                    .row_of = row_of.data(),
                                    .choice_of = choice_of.data()},
                                   nullptr);
  }
  bool has_overrun() const {
    return chosen.has_overrun() || order.has_overrun() || counts.has_overrun() || ends.has_overrun() ||
           row_of.has_overrun() || choice_of.has_overrun();
  }

  Shape shape;
  std::size_t count = static_cast<std::size_t>(shape.tokens * shape.choices);
  std::size_t experts = static_cast<std::size_t>(shape.experts);
  std::int64_t most = std::min<std::int64_t>(shape.capacity, shape.tokens* shape.choices);
  std::size_t rows = std::min(count, experts* static_cast<std::size_t>(most));
  ExactArray<std::int64_t> chosen{count}, order{static_cast<std::size_t>(shape.tokens)};
  ExactArray<std::int64_t> row_of{count, -7}, choice_of{rows, -7};
  ExactArray<int> ends{experts, -7};
  ExactArray<int> counts{static_cast<std::size_t>(assigned_counts(shape.tokens * shape.choices, shape.experts)), -7};
};

struct Expected {
  explicit Expected(const Case& c) : row_of(c.count, -1), choice_of(c.rows, 0) {
    std::vector<std::vector<std::size_t>> queues(c.experts);
    const auto k = static_cast<std::size_t>(c.shape.choices), tokens = static_cast<std::size_t>(c.shape.tokens);
    for (std::size_t j = 0; j < k; ++j)
      for (std::size_t i = 0; i < tokens; ++i) {
        const std::size_t choice = static_cast<std::size_t>(c.order[i]) * k + j;
        if (c.chosen[choice] < 0) continue;
        auto& queue = queues[static_cast<std::size_t>(c.chosen[choice])];
        if (queue.size() < static_cast<std::size_t>(c.most)) queue.push_back(choice);
      }
    int row = 0;
    for (const auto& queue : queues) {
      for (const std::size_t choice : queue) {
        row_of[choice] = row;
        choice_of[static_cast<std::size_t>(row++)] = static_cast<std::int64_t>(choice);
      }
      ends.push_back(row);
    }
  }

  std::vector<std::int64_t> row_of, choice_of;
  std::vector<int> ends;
};

}  // namespace

TEST_CASE("A GPU gives choices the rows of queues that are filled in the order of service") {
  const ThreadOrder order(GENERATE(thread_orders()));
  // One piece and several, one that ends with the choices; more experts than threads; none dropped, some and all.
  const std::vector<Shape> shapes{{1, 1, 1},         {7, 2, 4},       {300, 3, 8, 20},   {300, 3, 8, 20, true},
                                  {512, 2, 5, 1000}, {700, 2, 33, 9}, {40, 6, 300, 1},   {90, 8, 64, 2, true},
                                  {0, 2, 4},         {5, 2, 3, 0},    {1111, 1, 2, 400}, {600, 2, 4096, 3}};
  for (const Shape& shape : shapes) {
    INFO(shape.tokens << " tokens, " << shape.choices << " of " << shape.experts << ", at most " << shape.capacity);
    Case c(shape);
    c.assign();
    const Expected want(c);
    CHECK(copied(c.ends, c.experts) == want.ends);
    CHECK(copied(c.row_of, c.count) == want.row_of);
    CHECK(copied(c.choice_of, c.rows) == want.choice_of);
    CHECK_FALSE(c.has_overrun());
  }
}

TEST_CASE("Pieces of choices are few and cover all of them") {
  for (const std::int64_t choices : {0L, 1L, 512L, 513L, 131072L, 131073L, 2147483647L}) {
    CHECK(choice_pieces(choices) <= 256);
    CHECK(choice_pieces(choices) * choices_of_piece(choices) >= choices);
    CHECK((choice_pieces(choices) - 1) * choices_of_piece(choices) <= choices);
  }
}

}  // namespace llmtrain::kernels
