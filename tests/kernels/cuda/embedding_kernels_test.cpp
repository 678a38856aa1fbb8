// SPDX-License-Identifier: Apache-2.0
// The kernels of embeddings' gradients, run on the processor, against sums in the order of the rows.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/embedding_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

struct Shape {
  std::int64_t table;
  std::size_t count;
  int width;
  std::size_t shift = 0;  // elements by which dy is off the alignment of packs
};

// Rows go to places at random, the first third of them to one place in the middle.
template <class T>
struct Case {
  explicit Case(const Shape& s) : shape(s), targets(s.count), rows(s.count) {
    std::mt19937 engine{11};
    dy.fill(engine);
    gradient.fill(engine);
    std::uniform_int_distribution<std::int64_t> any(0, s.table - 1);
    for (std::size_t i = 0; i < s.count; ++i) ids.push_back(i < s.count / 3 ? s.table / 2 : any(engine));
    std::vector<std::int64_t> order(s.count);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, {}, [&](std::int64_t row) { return ids[static_cast<std::size_t>(row)]; });
    for (std::size_t i = 0; i < s.count; ++i) {
      rows[i] = order[i];
      targets[i] = ids[static_cast<std::size_t>(order[i])];
    }
  }

  void add() const {
    cuda_embedding_kernels.add_rows({kind_of<T>, dy.data(), targets.data(), rows.data(), gradient.data(),
                                     static_cast<std::int64_t>(shape.count), shape.table, shape.width},
                                    nullptr);
  }

  Shape shape;
  std::size_t width = static_cast<std::size_t>(shape.width);
  std::vector<std::int64_t> ids;
  test::ExactArray<std::int64_t> targets, rows;
  Numbers<T> dy{shape.count * width, shape.shift};
  Numbers<float> gradient{static_cast<std::size_t>(shape.table) * width};
};

template <class T>
void check_shapes() {
  // Rows of whole packs and not; more packs than a block has threads; runs of one row and of many; no rows.
  const std::vector<Shape> shapes{{5, 1, 16},   {3, 40, 8}, {50, 64, 37}, {4, 100, 24, 1},
                                  {2, 9, 1032}, {7, 0, 16}, {1, 17, 40},  {300, 90, 64}};
  for (const Shape& shape : shapes) {
    INFO(shape.count << " rows of " << shape.width);
    const Case<T> c(shape);
    std::vector<double> want = c.gradient.copied();
    for (std::size_t row = 0; row < shape.count; ++row)
      for (std::size_t i = 0; i < c.width; ++i) {
        double& sum = want[static_cast<std::size_t>(c.ids[row]) * c.width + i];
        sum = static_cast<double>(static_cast<float>(sum + c.dy[row * c.width + i]));
      }
    c.add();
    CHECK(c.gradient.copied() == want);
    CHECK_FALSE(c.gradient.has_overrun());
  }
}

}  // namespace

// fp32 numbers of a whole, so that sums are exact in every order.
TEST_CASE("A GPU adds long runs of rows, whatever their length and where they begin") {
  const ThreadOrder order(GENERATE(thread_orders()));
  for (const std::size_t count : {189U, 192U, 200U, 381U, 385U, 1200U, 3000U}) {
    for (const int width : {8, 40, 300}) {
      INFO(count << " rows of " << width);
      const Case<float> c({7, count, width, width == 40 ? 1U : 0U});
      for (std::size_t i = 0; i < c.dy.size; ++i) c.dy.data()[i] = std::round(64 * c.dy.data()[i]);
      for (std::size_t i = 0; i < c.gradient.size; ++i) c.gradient.data()[i] = std::round(64 * c.gradient.data()[i]);
      std::vector<double> want = c.gradient.copied();
      for (std::size_t row = 0; row < count; ++row)
        for (std::size_t i = 0; i < c.width; ++i)
          want[static_cast<std::size_t>(c.ids[row]) * c.width + i] += c.dy[row * c.width + i];
      c.add();
      CHECK(c.gradient.copied() == want);
      CHECK_FALSE(c.gradient.has_overrun());
    }
  }
}

TEST_CASE("A GPU adds rows to a table's gradient in their order") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_shapes<float>(); }
  SECTION("bf16") { check_shapes<__nv_bfloat16>(); }
  SECTION("fp16") { check_shapes<__half>(); }
}

}  // namespace llmtrain::kernels
