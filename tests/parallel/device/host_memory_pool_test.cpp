// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/host_memory_pool.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/resident_memory.h"

namespace llmtrain::test {
namespace {

constexpr std::size_t kib = 1024, mib = 1024 * kib;

std::size_t most_mapped(const HostMemoryPool::Use& use) { return use.peak + use.peak / HostMemoryPool::slack; }

// What a step takes in a pass: what it keeps until its backward, and, several times, the logits of a part of its tokens
// between small blocks that outlive them.
void run_step(HostMemoryPool& pool) {
  std::vector<void*> kept;
  const auto keep = [&](std::size_t bytes) {
    kept.push_back(pool.take(bytes));
    std::memset(kept.back(), 1, bytes);
  };
  for (int layer = 0; layer < 4; ++layer)
    for (const std::size_t bytes : {mib, 3 * mib, 4 * mib, 100 * kib}) keep(bytes);
  for (int part = 0; part < 4; ++part) {
    void* logits = pool.take(48 * mib);
    std::memset(logits, 1, 48 * mib);
    keep(256 * kib);
    pool.give(logits);
    keep(64 * kib);
  }
  while (!kept.empty()) {
    void* gradient = pool.take(2 * mib + 4096);
    std::memset(gradient, 1, 2 * mib);
    pool.give(kept.back());
    kept.pop_back();
    pool.give(gradient);
  }
}

// A block that a test has filled, so that overlaps are seen.
struct Filled {
  unsigned char* begin;
  std::size_t bytes;
  unsigned char value;
  bool is_whole() const { return begin[0] == value && begin[bytes / 2] == value && begin[bytes - 1] == value; }
};

// Returns whether every block was aligned, kept its contents and could be given back; threads may not assert.
bool take_and_give(HostMemoryPool& pool, unsigned seed, int times) {
  std::mt19937 random(seed);
  std::vector<Filled> filled;
  bool is_right = true;
  for (int i = 0; i < times; ++i) {
    if (filled.size() > 20 || (!filled.empty() && random() % 2 == 0)) {
      const std::size_t which = random() % filled.size();
      is_right &= filled[which].is_whole() && pool.give(filled[which].begin);
      std::swap(filled[which], filled.back());
      filled.pop_back();
    } else {
      const std::size_t bytes = 1 + random() % (random() % 4 == 0 ? 4 * mib : 200 * kib);
      auto* begin = static_cast<unsigned char*>(pool.take(bytes));
      is_right &= reinterpret_cast<std::uintptr_t>(begin) % HostMemoryPool::page == 0;
      filled.push_back({begin, bytes, static_cast<unsigned char>(random())});
      std::memset(begin, filled.back().value, bytes);
    }
  }
  for (const Filled& block : filled) is_right &= block.is_whole() && pool.give(block.begin);
  return is_right;
}

}  // namespace

TEST_CASE("a repeated step maps nothing, and a process holds what its blocks needed at once") {
  HostMemoryPool pool;
  [[maybe_unused]] const double before = resident_megabytes();
  run_step(pool);
  const auto first = pool.use();
  // Which pieces lie side by side, and so become one, is the system's choice of addresses: it settles in a few steps.
  for (int step = 0; step < 6; ++step) run_step(pool);
  const auto settled = pool.use();
  for (int step = 0; step < 3; ++step) run_step(pool);
  const auto last = pool.use();
  CHECK(last.used == 0);
  // The logits, four layers and what outlived the logits before the last.
  CHECK(first.peak == 48 * mib + 4 * (8 * mib + 100 * kib) + 4 * 256 * kib + 3 * 64 * kib);
  CHECK(last.peak == first.peak);
  CHECK(last.mapped == settled.mapped);
  CHECK(last.mapped <= most_mapped(last));
#if !defined(LLMTRAIN_SANITIZED)
  // Sanitizers have memory of their own about each byte.
  CHECK((resident_megabytes() - before) * 1e6 <= 1.05 * static_cast<double>(last.peak));
#endif
}

TEST_CASE("blocks never overlap and never need more than they are") {
  HostMemoryPool pool;
  std::mt19937 random(1);
  std::vector<void*> blocks;
  for (int i = 0; i < 3000; ++i) {
    if (blocks.size() < 30 && random() % 2 == 0) {
      blocks.push_back(pool.take(1 + random() % (300 * kib)));
    } else if (!blocks.empty()) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      REQUIRE(pool.give(blocks.back()));
      blocks.pop_back();
    }
    const auto use = pool.use();
    REQUIRE(use.used <= use.mapped);
    REQUIRE(use.mapped <= most_mapped(use));
  }
  CHECK(take_and_give(pool, 2, 2000));
}

TEST_CASE("threads share the blocks") {
  HostMemoryPool pool;
  std::array<bool, 3> is_right{};
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 3; ++seed)
    threads.emplace_back([&, seed] { is_right[seed] = take_and_give(pool, seed, 500); });
  for (std::thread& thread : threads) thread.join();
  CHECK(is_right == std::array{true, true, true});
  CHECK(pool.use().used == 0);
}

TEST_CASE("what no system has is refused, and an unknown block is left alone") {
  HostMemoryPool pool;
  void* block = pool.take(mib);
  const auto before = pool.use();
  CHECK(pool.take(std::size_t{1} << 60) == nullptr);
  CHECK(pool.take(std::numeric_limits<std::size_t>::max()) == nullptr);
  CHECK(pool.use().used == before.used);
  CHECK(pool.use().peak == before.peak);
  int other = 0;
  CHECK_FALSE(pool.give(&other));
  CHECK(pool.give(block));
  CHECK_FALSE(pool.give(block));
}

}  // namespace llmtrain::test
