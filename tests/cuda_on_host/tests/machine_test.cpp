// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/device/async_copy.h"
#include "kernels/cuda/device/language.h"
#include "tests/cuda_on_host/machine/launch.h"

using namespace cuda_on_host;

namespace {

// The numbers of threads of 2 blocks in the order in which they run, each up to its only barrier.
std::vector<unsigned> order_of(std::uint64_t seed) {
  std::vector<unsigned> order(256);
  std::atomic<unsigned> next = 0;
  options.seed = seed;
  launch(2, 128, 0, [&] {
    order[next++] = block_index.x * 128 + thread_index.x;
    __syncthreads();
  });
  options.seed = 1;
  return order;
}

void must_fail(const std::string& with, dim3 grid, dim3 block, std::size_t shared_bytes) {
  CHECK_THROWS_WITH(launch(grid, block, shared_bytes, [] {}), Catch::Contains(with));
}

}  // namespace

TEST_CASE("A seed decides the order of blocks and threads, and the same seed the same order") {
  std::vector<unsigned> in_order;
  for (unsigned i = 0; i < 256; ++i) in_order.push_back(i);
  CHECK(order_of(0) == in_order);
  std::set<std::vector<unsigned>> orders{in_order};
  for (std::uint64_t seed = 1; seed < 9; ++seed) {
    CHECK(order_of(seed) == order_of(seed));
    orders.insert(order_of(seed));
  }
  CHECK(orders.size() == 9);
}

TEST_CASE("Some blocks run a warp as far ahead as barriers allow, others go on in rounds") {
  // How many threads of other warps have begun when the first one has gone through 3 barriers of its own warp.
  std::set<bool> is_ahead;
  for (std::uint64_t seed = 1; seed < 9; ++seed) {
    options.seed = seed;
    std::atomic<unsigned> begun = 0;
    std::atomic<bool> is_first = true;
    launch(1, 128, 0, [&] {
      ++begun;
      for (int i = 0; i < 3; ++i) __syncwarp();
      if (is_first.exchange(false)) is_ahead.insert(begun == 32);
    });
  }
  options.seed = 1;
  CHECK(is_ahead.size() == 2);
}

TEST_CASE("Shared memory is NaN in every block, whatever the block before has left") {
  std::atomic<int> threads = 0;
  launch(4, 32, 4 * 32, [&] {
    SHARED_ARRAY(float, declared, 32);
    DYNAMIC_SHARED(float, asked);
    if (std::isnan(declared[threadIdx.x]) && std::isnan(asked[threadIdx.x])) ++threads;
    declared[threadIdx.x] = 1;
    asked[threadIdx.x] = 1;
  });
  CHECK(threads == 4 * 32);
}

TEST_CASE("Late copies arrive by groups when their thread waits, and never before") {
  alignas(16) const std::array<float, 12> numbers{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  const auto arrived = [](const float* memory) {
    std::string text;
    for (int i = 0; i < 3; ++i) text += std::isnan(memory[4 * i]) ? '-' : '+';
    return text;
  };
  std::vector<std::string> seen;
  launch(1, 1, 3 * 16, [&] {
    using namespace llmtrain::kernels;
    DYNAMIC_SHARED(float, memory);
    for (int i = 0; i < 2; ++i) {
      async_copy_16(memory + 4 * i, numbers.data() + 4 * i);
      async_commit();
    }
    async_copy_16(memory + 8, numbers.data() + 8);  // in a group that nobody has closed
    seen.push_back(arrived(memory));
    async_wait<1>();
    seen.push_back(arrived(memory));
    async_wait<0>();
    seen.push_back(arrived(memory));
    async_commit();
    async_wait<0>();
    seen.push_back(arrived(memory));
  });
  CHECK(seen == std::vector<std::string>{"---", "+--", "++-", "+++"});
}

TEST_CASE("A launch that a device would refuse fails") {
  must_fail("a block has 1 to 1024 threads", 1, 0, 0);
  must_fail("a block has 1 to 1024 threads", 1, 1025, 0);
  must_fail("64 along z", 1, dim3(1, 1, 65), 0);
  must_fail("a grid without blocks", 0, 32, 0);
  must_fail("a grid has at most", dim3(1, 65536), 32, 0);
  must_fail("more dynamic shared memory", 1, 32, 227 * 1024 + 1);
  CHECK_NOTHROW(launch(1, 1024, 227 * 1024, [] {}));
}

TEST_CASE("Blocks, threads and switches are counted") {
  const Counts before = counts;
  launch(3, 40, 0, [] { __syncthreads(); });
  CHECK(counts.launches - before.launches == 1);
  CHECK(counts.blocks - before.blocks == 3);
  CHECK(counts.threads - before.threads == 120);
  // The last thread of a block to arrive does not wait.
  CHECK(counts.switches - before.switches == 3 * (2 * 40 - 1));
}

TEST_CASE("After a launch that has failed the next one runs") {
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_WITH(launch(1, 64, 0,
                             [] {
                               if (thread_index.x < 40) __shfl_sync(0xffffffffU, 1, 0);
                             }),
                      Catch::Contains("machine_test.cpp"));
    std::atomic<unsigned> threads = 0;
    launch(2, 64, 0, [&] {
      __syncthreads();
      ++threads;
    });
    CHECK(threads == 128);
  }
}

TEST_CASE("Lanes that cannot do an operation together are told why") {
  const auto refused = [](unsigned threads, const std::function<void()>& thread, const std::string& words) {
    CHECK_THROWS_WITH(launch(1, threads, 0, thread), Catch::Contains(words));
  };
  options.seed = 0;
  refused(
      32, [] { __syncwarp(2); }, "thread 0 of block 0: __syncwarp: the calling lane is not in its mask");
  refused(
      16, [] { __syncwarp(); }, "__syncwarp: its mask has lanes that the block has not");
  const auto end_or_wait = [] {
    if (thread_index.x >= 10) __syncwarp();
  };
  refused(32, end_or_wait, "__syncwarp: its mask has lanes that have ended");
  // On one line, and of as many bytes.
  const auto sum_or_largest = [] {
    thread_index.x < 10 ? __reduce_add_sync(0xffffffffU, 1U) : __reduce_max_sync(0xffffffffU, 1U);
  };
  refused(32, sum_or_largest, "__reduce_max_sync meets __reduce_add_sync of ");
  const auto wait_elsewhere = [] {
    if (thread_index.x < 10)
      __syncwarp();
    else
      __syncwarp();
  };
  refused(32, wait_elsewhere, "__syncwarp meets __syncwarp of ");
  options.seed = 1;
}

TEST_CASE("A deadlock names who waits where") {
  const auto diverge = [] {
    if (thread_index.x < 10) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  };
  options.seed = 0;
  CHECK_THROWS_WITH(launch(1, 32, 0, diverge), Catch::Contains("block 0 cannot go on") &&
                                                   Catch::Contains("threads 0 to 9 wait at __syncthreads(), ") &&
                                                   Catch::Contains("threads 10 to 31 wait at __syncwarp, ") &&
                                                   Catch::Contains("mask ffffffff"));
  options.seed = 1;
}
