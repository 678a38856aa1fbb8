// SPDX-License-Identifier: Apache-2.0
// The kernels of attention to a cache, run on the processor, against float64: all types, grouped heads, sequences in
// any order and of any length, rows between other numbers.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/cuda/attention/decode_kernels.h"
#include "tests/kernels/cuda/kernel_numbers.h"
#include "tests/kernels/cuda/thread_order.h"

namespace llmtrain::kernels {
namespace {

using llmtrain::test::ExactArray;

struct Shape {
  std::int64_t heads, kv_heads, dim;
  std::vector<std::int64_t> sequences, positions;  // by token
  std::int64_t all_sequences, capacity;
  std::int64_t gap = 0;  // elements between the rows of two tokens
  float query_size = 1;  // large ones have scores whose exponentials overflow
};

const std::vector<Shape> shapes{{1, 1, 1, {0}, {0}, 1, 1},         {4, 2, 8, {2, 0}, {5, 127}, 3, 130},
                                {6, 6, 33, {1}, {128}, 2, 129, 7}, {12, 1, 20, {0, 1, 2}, {300, 0, 255}, 3, 301, 3},
                                {2, 1, 256, {0}, {40}, 1, 64},     {3, 1, 16, {1, 0}, {199, 3}, 2, 200, 0, 90},
                                {8, 1, 16, {0}, {0}, 1, 1, 0, 90}};

std::size_t size_of_all(std::int64_t count) { return static_cast<std::size_t>(count); }

template <class T>
struct Case {
  explicit Case(const Shape& s) : shape(s) {
    std::mt19937 engine{17};
    for (const Numbers<T>* each : {&query, &key, &value, &keys, &values}) each->fill(engine);
    for (std::size_t i = 0; i < query.size; ++i) query.data()[i] = narrowed<T>(s.query_size * widened(query.data()[i]));
    std::fill_n(partials.data(), partials.size, std::nanf(""));  // what is not written must not be read
    std::copy(s.sequences.begin(), s.sequences.end(), sequences.data());
    std::copy(s.positions.begin(), s.positions.end(), positions.data());
  }
  void run() const {
    const auto rows = [&](const Numbers<T>& of, std::int64_t heads) {
      return DecodeRows{of.data(), heads * shape.dim + shape.gap, shape.dim};
    };
    cuda_decode_kernels.attend(
        {kind_of<T>, rows(query, shape.heads), rows(key, shape.kv_heads), rows(value, shape.kv_heads), keys.data(),
         values.data(), out.data(), sequences.data(), positions.data(), partials.data(), tokens, shape.heads,
         shape.kv_heads, shape.dim, shape.all_sequences, shape.capacity, pieces, scale},
        nullptr);
  }
  bool has_overrun() const {
    return query.has_overrun() || keys.has_overrun() || values.has_overrun() || out.has_overrun() ||
           partials.has_overrun();
  }
  std::size_t rows_size(std::int64_t heads) const {
    return size_of_all(tokens * (heads * shape.dim + shape.gap) - shape.gap);
  }
  std::size_t held(std::int64_t sequence, std::int64_t kv_head, std::int64_t position) const {
    return size_of_all(((sequence * shape.kv_heads + kv_head) * shape.capacity + position) * shape.dim);
  }
  std::size_t row(std::int64_t token, std::int64_t head, std::int64_t heads) const {
    return size_of_all(token * (heads * shape.dim + shape.gap) + head * shape.dim);
  }

  Shape shape;
  std::int64_t tokens = static_cast<std::int64_t>(shape.sequences.size());
  std::int64_t pieces = decode_pieces(*std::max_element(shape.positions.begin(), shape.positions.end()) + 1);
  float scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.dim)));
  std::size_t memory = size_of_all(shape.all_sequences * shape.kv_heads * shape.capacity * shape.dim);
  Numbers<T> query{rows_size(shape.heads)}, key{rows_size(shape.kv_heads)}, value{rows_size(shape.kv_heads)};
  Numbers<T> keys{memory}, values{memory}, out{size_of_all(tokens * shape.heads * shape.dim)};
  ExactArray<std::int64_t> sequences{size_of_all(tokens)}, positions{size_of_all(tokens)};
  Numbers<float> partials{size_of_all(tokens * shape.heads * pieces * (shape.dim + 2))};
};

// What the memory must be after the call: as before, with the tokens' own keys or values.
template <class T>
std::vector<double> appended(const Case<T>& c, std::vector<double> before, const Numbers<T>& rows) {
  for (std::int64_t token = 0; token < c.tokens; ++token)
    for (std::int64_t head = 0; head < c.shape.kv_heads; ++head)
      for (std::size_t d = 0; d < size_of_all(c.shape.dim); ++d)
        before[c.held(c.shape.sequences[size_of_all(token)], head, c.shape.positions[size_of_all(token)]) + d] =
            rows[c.row(token, head, c.shape.kv_heads) + d];
  return before;
}

// How many of a head's results are wrong: rounding moves a weight by that of its score and of e^x, and sums by the
// number of their terms.
template <class T>
std::size_t wrong_of(const Case<T>& c, std::int64_t token, std::int64_t head) {
  const Shape& s = c.shape;
  const std::int64_t kv_head = head / (s.heads / s.kv_heads), sequence = s.sequences[size_of_all(token)],
                     count = s.positions[size_of_all(token)] + 1;
  std::vector<double> weights;
  double largest = -HUGE_VAL, size = 0, sum = 0;
  for (std::int64_t k = 0; k < count; ++k) {
    double score = 0, magnitude = 0;
    for (std::size_t d = 0; d < size_of_all(s.dim); ++d) {
      const double term =
          double{c.scale} * c.query[c.row(token, head, s.heads) + d] * c.keys[c.held(sequence, kv_head, k) + d];
      score += term;
      magnitude += std::abs(term);
    }
    weights.push_back(score);
    largest = std::max(largest, score);
    size = std::max(size, magnitude);
  }
  for (double& weight : weights) sum += weight = std::exp(weight - largest);
  std::size_t wrong = 0;
  for (std::size_t d = 0; d < size_of_all(s.dim); ++d) {
    double want = 0, magnitude = 0;
    for (std::int64_t k = 0; k < count; ++k) {
      const double term = weights[size_of_all(k)] / sum * c.values[c.held(sequence, kv_head, k) + d];
      want += term;
      magnitude += std::abs(term);
    }
    const double of_scores = static_cast<double>(s.dim / 32 + 8) * size * 0x1p-24 * 2;
    const double bound = magnitude * (of_scores + (static_cast<double>(std::min(count, decode_piece)) + 40) * 0x1p-24) +
                         (sizeof(T) == 4 ? 0 : rounding<T>)*std::abs(want) + 0x1p-25;
    wrong += !(std::abs(c.out[size_of_all((token * s.heads + head) * s.dim) + d] - want) <= bound);
  }
  return wrong;
}

template <class T>
void check_shapes() {
  for (const Shape& shape : shapes) {
    INFO(shape.heads << " heads of " << shape.dim << ", " << shape.sequences.size() << " tokens");
    const Case<T> c(shape);
    const std::vector<double> keys = appended(c, c.keys.copied(), c.key),
                              values = appended(c, c.values.copied(), c.value);
    c.run();
    CHECK(c.keys.copied() == keys);
    CHECK(c.values.copied() == values);
    std::size_t wrong = 0;
    for (std::int64_t token = 0; token < c.tokens; ++token)
      for (std::int64_t head = 0; head < shape.heads; ++head) wrong += wrong_of(c, token, head);
    CHECK(wrong == 0);
    CHECK_FALSE(c.has_overrun());
  }
}

}  // namespace

TEST_CASE("A GPU's attention to a cache is float64's up to rounding, and the cache gets the new tokens") {
  const ThreadOrder order(GENERATE(thread_orders()));
  SECTION("fp32") { check_shapes<float>(); }
  SECTION("bf16") { check_shapes<__nv_bfloat16>(); }
  SECTION("fp16") { check_shapes<__half>(); }
}

TEST_CASE("A token's attention to a cache has the same bits in every order of threads and beside any other tokens") {
  const Shape alone{6, 2, 24, {1}, {290}, 3, 400};
  std::vector<std::vector<double>> outs;
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    const ThreadOrder order(seed);
    const Case<float> c(alone);
    c.run();
    outs.push_back(c.out.copied());
  }
  for (const auto& other : outs) CHECK(other == outs.front());
  // The first token is the same, the second has more keys.
  Shape both = alone;
  both.sequences = {1, 0};
  both.positions = {290, 399};
  const Case<float> one(alone), two(both);
  const auto copy = [](const Numbers<float>& from, const Numbers<float>& to) {
    std::copy_n(from.data(), std::min(from.size, to.size), to.data());
  };
  copy(one.query, two.query), copy(one.key, two.key), copy(one.value, two.value);
  copy(one.keys, two.keys), copy(one.values, two.values);
  two.run();
  std::vector<double> first = two.out.copied();
  first.resize(outs.front().size());
  CHECK(first == outs.front());
}

}  // namespace llmtrain::kernels
