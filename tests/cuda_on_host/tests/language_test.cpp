// SPDX-License-Identifier: Apache-2.0
// Kernels that are right must give what CUDA's manual says, in every order of threads and blocks.
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "tests/cuda_on_host/exact_array.h"
#include "tests/cuda_on_host/machine/launch.h"
#include "tests/cuda_on_host/tests/right_kernels.h"

using namespace llmtrain::kernels::test;
using llmtrain::test::ExactArray;

namespace {

// In order, and in four random orders.
template <class Test>
void in_all_orders(Test test) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    INFO("seed " << seed);
    cuda_on_host::options.seed = seed;
    test();
  }
  cuda_on_host::options.seed = 1;
}

template <class Kernel>
void run(dim3 grid, dim3 block, std::size_t shared_bytes, Kernel kernel) {
  cuda_on_host::launch(grid, block, shared_bytes, kernel);
}

// 0, 1, 2, …: their sums are exact.
template <class T>
void count_up(const ExactArray<T>& x, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<T>(i);
}

}  // namespace

#if defined(__x86_64__)
namespace {

// Compiled for processors that fuse products and sums, as g++ then does.
[[gnu::noinline, gnu::target("fma")]] float rounded_twice(float a, float b, float c) { return __fmul_rn(a, b) + c; }
[[gnu::noinline, gnu::target("fma")]] double rounded_twice(double a, double b, double c) {
  return __dadd_rn(__dmul_rn(a, b), c);
}

}  // namespace

TEST_CASE("Products and sums that CUDA rounds by themselves are fused by no compiler") {
  if (!__builtin_cpu_supports("fma")) return;
  // (1 + u)² is 1 + 2 u + u², of which the last does not fit.
  const float u = 0x1p-20F, one = 1 + u;
  const double v = 0x1p-40, double_one = 1 + v;
  CHECK(rounded_twice(one, one, -1 - 2 * u) == 0);
  CHECK(rounded_twice(double_one, double_one, -1 - 2 * v) == 0);
}
#endif

TEST_CASE("A block sums its threads' values through shuffles, shared memory and a barrier") {
  const ExactArray<float> x(3 * 256), sums(3);
  count_up(x, 3 * 256);
  in_all_orders([&] {
    run(3, 256, 0, [&] { block_sums(x.data(), sums.data()); });
    for (std::size_t block = 0; block < 3; ++block)
      CHECK(sums[block] == static_cast<float>(256 * 256 * block + 255 * 128));
    CHECK_FALSE(sums.has_overrun());
  });
}

TEST_CASE("Dynamic shared memory is as long as the launch asks for") {
  const ExactArray<float> x(2 * 70), y(2 * 70);
  count_up(x, 140);
  in_all_orders([&] {
    run(2, 70, 70 * sizeof(float), [&] { reversed(x.data(), y.data()); });
    for (std::size_t i = 0; i < 140; ++i) CHECK(y[i] == static_cast<float>(i / 70 * 70 + 69 - i % 70));
  });
}

TEST_CASE("Lanes shuffle in groups of their width") {
  const ExactArray<int> results(5 * 32);
  in_all_orders([&] {
    for (const int width : {32, 16, 8}) {
      run(1, 32, 0, [&] { shuffled(results.data(), width); });
      for (int i = 0; i < 32; ++i) {
        const auto at = [&](std::size_t row) { return results[row * 32 + static_cast<std::size_t>(i)]; };
        CHECK(at(0) == i / width * width + 3);
        CHECK(at(1) == (i ^ 5));
        CHECK(at(2) == (i % width + 2 < width ? i + 2 : i));
        CHECK(at(3) == (i % width < 2 ? i : i - 2));
      }
    }
    // By xor 5 of a group of four: lanes of even groups would read from the group behind theirs, and keep their own.
    run(1, 32, 0, [&] { shuffled(results.data(), 4); });
    for (int i = 0; i < 32; ++i) CHECK(results[32 + static_cast<std::size_t>(i)] == (i / 4 % 2 == 0 ? i : i ^ 5));
  });
}

TEST_CASE("Lanes vote and reduce over their mask, whoever else is in the warp") {
  const ExactArray<unsigned> x(32), results(5);
  count_up(x, 32);
  in_all_orders([&] {
    for (const int lanes : {1, 20, 32}) {
      run(1, 32, 0, [&] { voted(x.data(), results.data(), lanes); });
      const auto last = static_cast<unsigned>(lanes) - 1;
      CHECK(results[0] == (lanes == 1 ? 0U : 0xaaaaaaaaU >> (32 - lanes)));
      CHECK(results[1] == (lanes > 1 ? 1U : 0U));
      CHECK(results[2] == 0);
      CHECK(results[3] == last);
      CHECK(results[4] == last * (last + 1) / 2);
    }
  });
}

TEST_CASE("Atomic operations lose nothing") {
  const ExactArray<int> x(4 * 64), sum(1), largest(1);
  count_up(x, 256);
  in_all_orders([&] {
    sum[0] = 7;
    largest[0] = -1;
    run(4, 64, 0, [&] { added(x.data(), sum.data(), largest.data()); });
    CHECK(sum[0] == 7 + 255 * 128);
    CHECK(largest[0] == 255);
  });
}

TEST_CASE("Copies that arrive late are there after the wait and a barrier") {
  constexpr std::size_t tiles = 5, threads = 64;
  const ExactArray<float> x(tiles * threads * 4), sums(tiles * threads);
  count_up(x, tiles * threads * 4);
  in_all_orders([&] {
    run(1, threads, 2 * threads * 16, [&] { tile_sums(x.data(), sums.data(), tiles); });
    for (std::size_t tile = 0; tile < tiles; ++tile)
      for (std::size_t i = 0; i < threads; ++i) {
        const std::size_t first = 4 * (tile * threads + threads - 1 - i);
        CHECK(sums[tile * threads + i] == static_cast<float>(4 * first + 6));
      }
  });
}

TEST_CASE("A barrier waits for the threads that have not ended") {
  const ExactArray<float> x(256), y(256);
  count_up(x, 256);
  in_all_orders([&] {
    for (const int threads : {1, 100, 256}) {
      run(1, 256, 0, [&] { some_end_early(x.data(), y.data(), threads); });
      for (int i = 0; i < threads; ++i) CHECK(y[static_cast<std::size_t>(i)] == static_cast<float>(threads - 1 - i));
    }
  });
}

TEST_CASE("Every thread of a grid of three dimensions runs once, with its own number") {
  constexpr std::size_t count = 2 * 3 * 2 * 5 * 3 * 2;
  const ExactArray<int> y(count);
  in_all_orders([&] {
    for (std::size_t i = 0; i < count; ++i) y[i] = -1;
    run(dim3(2, 3, 2), dim3(5, 3, 2), 0, [&] { numbered(y.data()); });
    for (std::size_t i = 0; i < count; ++i) CHECK(y[i] == static_cast<int>(i));
  });
}

TEST_CASE("Small floats round to the nearest, ties to even, and FP8 saturates") {
  // 1 + 2⁻⁸ lies between two numbers of bf16; 17 between 16 and 18 of E4M3, 19 between 18 and 20, and 464 above 448.
  const ExactArray<float> x(4);
  const ExactArray<__nv_bfloat16> narrow(4);
  const ExactArray<std::uint8_t> fp8(4);
  const std::vector<float> values{1 + 0x1p-8F, 17, 19, 464}, narrowed{1, 17, 19, 464};
  // E4M3: sign, four bits of the exponent over 7, three of the fraction.
  const std::vector<std::uint8_t> bits{0x38, 0x58, 0x5a, 0x7e};
  for (std::size_t i = 0; i < 4; ++i) x[i] = values[i];
  run(1, 4, 0, [&] { rounded(x.data(), narrow.data(), fp8.data()); });
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(__bfloat162float(narrow[i]) == narrowed[i]);
    CHECK(fp8[i] == bits[i]);
  }
}
