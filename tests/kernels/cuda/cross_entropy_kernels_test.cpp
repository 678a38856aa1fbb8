// SPDX-License-Identifier: Apache-2.0
// The kernels of cross-entropy, run on the processor, against float64: all types, rows in every alignment, wider than
// shared memory, in slices, none at all.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/cross_entropy_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

using llmtrain::test::ExactArray;

// The largest error of one rounding beside the relative one: of fp16 where its exponents end.
template <class T>
constexpr double least_rounding = 0;
template <>
constexpr double least_rounding<__half> = 0x1p-25;

// The error of a loss, relative and where a sum of little more than 1 has been rounded.
constexpr double loss_bound = 1e-6, least_loss_bound = 2e-7;
// The relative error of a probability: that of an exponential, a sum and two roundings.
constexpr double probability_bound = 2e-6;

constexpr float scale = 0.375F;

// Rows of logits in memory that begins `shift` elements behind a boundary of 16 bytes.
template <class T>
struct Logits {
  Logits(std::int64_t row_count, int column_count, std::size_t skew = 0)
      : rows(row_count), columns(column_count), shift(skew), values(shift + size()) {
    for (std::size_t i = 0; i < size(); ++i) data()[i] = narrowed<T>(3 * normal(engine));
    for (std::int64_t row = 0; row < rows; ++row)
      targets[static_cast<std::size_t>(row)] = row == 0 ? columns - 1 : row * 7919 % std::max(columns, 1);
  }
  // Columns [begin, end) of others.
  Logits(const Logits& whole, std::int64_t begin, std::int64_t end)
      : Logits(whole.rows, static_cast<int>(end - begin)) {
    for (std::int64_t row = 0; row < rows; ++row) {
      targets[static_cast<std::size_t>(row)] = whole.targets[static_cast<std::size_t>(row)];
      for (std::int64_t i = begin; i < end; ++i)
        data()[row * columns + i - begin] = whole.data()[row * whole.columns + i];
    }
  }
  std::size_t size() const { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns); }
  T* data() const { return values.data() + shift; }
  double operator()(std::int64_t row, std::int64_t column) const {
    return static_cast<double>(widened(data()[row * columns + column]));
  }
  CrossEntropyArguments arguments(std::int64_t first_column = 0) const {
    return {kind_of<T>, data(), targets.data(), rows, columns, first_column};
  }

  std::int64_t rows;
  int columns;
  std::size_t shift;
  ExactArray<T> values;
  ExactArray<std::int64_t> targets{static_cast<std::size_t>(rows)};
  std::mt19937 engine{11};
  std::normal_distribution<float> normal;
};

struct Expected {
  std::vector<double> losses, probabilities, gradient;
};

template <class T>
Expected expected_of(const Logits<T>& logits) {
  Expected expected;
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int i = 0; i < logits.columns; ++i) largest = std::max(largest, logits(row, i));
    for (int i = 0; i < logits.columns; ++i) sum += std::exp(logits(row, i) - largest);
    const std::int64_t target = logits.targets[static_cast<std::size_t>(row)];
    expected.losses.push_back(std::log(sum) + largest - logits(row, target));
    for (int i = 0; i < logits.columns; ++i) {
      expected.probabilities.push_back(std::exp(logits(row, i) - largest) / sum);
      expected.gradient.push_back(static_cast<double>(scale) * (expected.probabilities.back() - (i == target ? 1 : 0)));
    }
  }
  return expected;
}

// !(a <= b), so that NaN is wrong.
bool is_wrong_loss(double got, double want) {
  return !(std::abs(got - want) <= loss_bound * std::abs(want) + least_loss_bound);
}

template <class T>
bool is_wrong_gradient(T got, double want, double probability) {
  const double bound =
      probability_bound * static_cast<double>(scale) * probability + rounding<T> * std::abs(want) + least_rounding<T>;
  return !(std::abs(static_cast<double>(widened(got)) - want) <= bound);
}

template <class T>
void check_rows(std::int64_t rows, int columns, std::size_t shift) {
  INFO(rows << " rows of " << columns << ", shifted by " << shift);
  const Logits<T> logits(rows, columns, shift);
  const Expected expected = expected_of(logits);
  const ExactArray<float> losses(static_cast<std::size_t>(rows)), again(static_cast<std::size_t>(rows));
  cuda_cross_entropy_kernels.forward(logits.arguments(), losses.data(), nullptr);
  cuda_cross_entropy_kernels.forward_backward(logits.arguments(), scale, again.data(), nullptr);
  std::size_t wrong = 0;
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    wrong += is_wrong_loss(static_cast<double>(losses[row]), expected.losses[row]);
    wrong += again[row] != losses[row];
  }
  for (std::size_t i = 0; i < logits.size(); ++i)
    wrong += is_wrong_gradient(logits.data()[i], expected.gradient[i], expected.probabilities[i]);
  CHECK(wrong == 0);
  CHECK_FALSE((logits.values.has_overrun() || losses.has_overrun() || again.has_overrun()));
}

// Less than a pack, and rows for blocks of 128, 512 and 1024 threads, of which shared memory holds all or a part.
template <class T>
void check_widths() {
  const int narrow = 8192 / static_cast<int>(sizeof(T));
  for (const int columns : {1, 2, 7, 8, 33, 1025}) check_rows<T>(9, columns, columns % 3U);
  for (const int columns : {narrow + 1, 3 * narrow, 6 * narrow + 5, 15 * narrow}) check_rows<T>(2, columns, 1);
  check_rows<T>(0, 5, 0);
}

}  // namespace

TEST_CASE("A GPU's losses and gradients of logits are float64's up to fp32 sums and one rounding") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_widths<float>(); }
  SECTION("bf16") { check_widths<__nv_bfloat16>(); }
  SECTION("fp16") { check_widths<__half>(); }
}

TEST_CASE("A GPU's loss is accurate over whole vocabularies") {
  check_rows<float>(1, 50257, 0);
  check_rows<__nv_bfloat16>(2, 50257, 0);
  check_rows<__nv_bfloat16>(1, 151936, 0);
}

namespace {

// Adds a slice's statistics [rows, 3] to those of the slices before it.
void join(std::vector<double>& whole, const ExactArray<float>& part) {
  for (std::size_t i = 0; i < whole.size(); i += 3) {
    const double largest = std::max(whole[i], static_cast<double>(part[i]));
    const double mine = static_cast<double>(part[i + 1]) * std::exp(static_cast<double>(part[i]) - largest);
    whole[i + 1] = whole[i + 1] * std::exp(whole[i] - largest) + mine;
    whole[i] = largest;
    whole[i + 2] += static_cast<double>(part[i + 2]);
  }
}

template <class T>
void check_slices(int columns) {
  const Logits<T> logits(3, columns);
  const Expected expected = expected_of(logits);
  const std::vector<std::int64_t> bounds{0, 1, columns / 2, columns, columns};
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> whole{-infinity, 0, 0, -infinity, 0, 0, -infinity, 0, 0};
  for (std::size_t part = 0; part + 1 < bounds.size(); ++part) {
    const Logits<T> slice(logits, bounds[part], bounds[part + 1]);
    const ExactArray<float> statistics(9);
    cuda_cross_entropy_kernels.statistics(slice.arguments(bounds[part]), statistics.data(), nullptr);
    CHECK_FALSE(statistics.has_overrun());
    if (slice.columns > 0) join(whole, statistics);
    if (slice.columns == 0) CHECK((statistics[3] == -INFINITY && statistics[4] == 0 && statistics[5] == 0));
  }
  const ExactArray<float> joined(9);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < 9; ++i) joined[i] = static_cast<float>(whole[i]);
  for (std::size_t row = 0; row < 3; ++row)
    wrong += is_wrong_loss(std::log(whole[3 * row + 1]) + whole[3 * row] - whole[3 * row + 2], expected.losses[row]);
  for (std::size_t part = 0; part + 1 < bounds.size(); ++part) {
    const Logits<T> slice(logits, bounds[part], bounds[part + 1]);
    cuda_cross_entropy_kernels.backward(slice.arguments(bounds[part]), joined.data(), scale, nullptr);
    CHECK_FALSE(slice.values.has_overrun());
    for (std::int64_t i = 0; i < 3 * slice.columns; ++i) {
      const auto at = static_cast<std::size_t>(i / slice.columns * columns + bounds[part] + i % slice.columns);
      wrong += is_wrong_gradient(slice.data()[i], expected.gradient[at], expected.probabilities[at]);
    }
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("A GPU's statistics of slices join to whole rows, by which each has its gradient") {
  for (const int columns : {2, 301, 9001}) {
    INFO(columns);
    check_slices<float>(columns);
    check_slices<__nv_bfloat16>(columns);
    check_slices<__half>(columns);
  }
}

TEST_CASE("A GPU leaves out logits of minus infinity, and neither large ones nor NaN are hidden") {
  const int columns = GENERATE(70, 9000);
  Logits<float> logits(5, columns);
  for (int i = 0; i < columns; ++i) {
    logits.data()[i] = i < columns / 2 ? -INFINITY : 1;    // half of a row
    logits.data()[columns + i] = i == 3 ? 3e38F : -3e38F;  // a difference beyond fp32
    logits.data()[2 * columns + i] = 3e38F;
  }
  logits.data()[3 * columns + columns / 3] = GENERATE(NAN, INFINITY);
  logits.targets[0] = columns - 1;
  logits.targets[1] = 3;
  const ExactArray<float> losses(5);
  cuda_cross_entropy_kernels.forward_backward(logits.arguments(), 1, losses.data(), nullptr);
  CHECK(losses[0] == Approx(std::log(columns - columns / 2)).epsilon(1e-6));
  CHECK(logits(0, 0) == 0);
  CHECK(logits(0, columns - 2) == Approx(1.0 / (columns - columns / 2)).epsilon(1e-6));
  CHECK(losses[1] == 0);
  CHECK((logits(1, 3) == 0 && logits(1, 4) == 0));
  CHECK(losses[2] == Approx(std::log(columns)).epsilon(1e-6));
  CHECK((std::isnan(losses[3]) && std::isnan(logits(3, 0))));
  CHECK((std::isfinite(losses[4]) && std::isfinite(logits(4, 0))));
}

TEST_CASE("A GPU's losses and gradients of logits have the same bits in every order of threads and blocks") {
  std::vector<std::vector<double>> seen;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const ThreadOrder order(seed);
    const Logits<__nv_bfloat16> logits(3, 4501);
    const ExactArray<float> losses(3);
    cuda_cross_entropy_kernels.forward_backward(logits.arguments(), scale, losses.data(), nullptr);
    std::vector<double> all;
    for (std::size_t i = 0; i < 3; ++i) all.push_back(static_cast<double>(losses[i]));
    for (std::size_t i = 0; i < logits.size(); ++i) all.push_back(static_cast<double>(widened(logits.data()[i])));
    seen.push_back(std::move(all));
  }
  for (const auto& other : seen) CHECK(other == seen.front());
}

}  // namespace llmtrain::kernels
