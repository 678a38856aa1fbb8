// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/step_arena.h"
#include "parallel/device/arena_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace llmtrain::test {
namespace {

at::Tensor floats(std::int64_t count, float value) { return at::full({count}, value); }

// Whether a tensor lies in one of the arenas' blocks is what the arena counts.
template <class Work>
StepArena::Use step(StepArena& arena, Work work) {
  StepArena::Step in_step(&arena);
  work();
  in_step.finish();
  return arena.use();
}

// Three tensors, 16,000 bytes, of which the first and the last can share theirs.
void chain() {
  at::Tensor a = floats(1000, 1);
  at::Tensor b = floats(2000, 2);
  a.reset();
  at::Tensor c = floats(1000, 3);
  CHECK(b.sum().item<float>() == 4000);
  CHECK(c.sum().item<float>() == 3000);
}

}  // namespace

TEST_CASE("a step that repeats the one before has all of its tensors in a block as large as what is alive at once") {
  StepArena arena;
  const StepArena::Use first = step(arena, chain);
  CHECK(first.placed_bytes == 0);
  CHECK(first.step_bytes == 16'000);
  CHECK(first.allocations == 3);
  const StepArena::Use second = step(arena, chain);
  CHECK(second.placed_bytes == 16'000);
  CHECK(second.plans == 1);
  CHECK(second.least == 4096 + 8192);
  CHECK(second.bytes == second.least);
}

TEST_CASE("what has another size or no turn in the plan lies elsewhere, and those after it at their places") {
  StepArena arena;
  const auto sizes = [](std::int64_t first, std::int64_t second) {
    StepArena::begin_section();
    const at::Tensor a = floats(first, 1);
    const at::Tensor b = floats(second, 2);
    StepArena::begin_section();
    const at::Tensor c = floats(3000, 3);
    CHECK(a.sum().item<float>() == static_cast<float>(first));
    CHECK(b.sum().item<float>() == 2 * static_cast<float>(second));
    CHECK(c.sum().item<float>() == 9000);
  };
  step(arena, [&] { sizes(1000, 2000); });
  CHECK(step(arena, [&] { sizes(900, 2000); }).placed_bytes == 4 * (900 + 2000 + 3000));
  CHECK(step(arena, [&] { sizes(1100, 2000); }).placed_bytes == 4 * (2000 + 3000));
  // Planned again for the larger of both.
  CHECK(arena.use().plans == 2);
  CHECK(step(arena, [&] { sizes(1100, 2000); }).placed_bytes == 4 * (1100 + 2000 + 3000));
  CHECK(step(arena, [&] { sizes(1000, 2000); }).placed_bytes == 4 * (1000 + 2000 + 3000));
  const StepArena::Use more = step(arena, [&] {
    const at::Tensor before = floats(500, 1);
    sizes(1100, 2000);
  });
  CHECK(more.placed_bytes == 4 * (1100 + 2000 + 3000));
}

TEST_CASE("what outlives its step is never overwritten, and any thread may free it, also when the arena is gone") {
  std::vector<at::Tensor> kept;
  {
    StepArena arena;
    step(arena, [] { chain(); });
    for (int round = 0; round < 6; ++round)
      step(arena, [&] {
        at::Tensor a = floats(1000, static_cast<float>(round));
        if (round % 2 == 0) kept.push_back(a);
        const at::Tensor b = floats(2000, -1);
        a.reset();
        const at::Tensor c = floats(1000, -2);
      });
    for (std::size_t i = 0; i < kept.size(); ++i) CHECK(kept[i].equal(floats(1000, 2 * static_cast<float>(i))));
    std::thread([last = std::move(kept.back())]() mutable { last.reset(); }).join();
    kept.pop_back();
  }
  for (std::size_t i = 0; i < kept.size(); ++i) CHECK(kept[i].equal(floats(1000, 2 * static_cast<float>(i))));
}

TEST_CASE("a step that ends with an exception is not planned by, and arenas of threads are their own") {
  StepArena arena;
  CHECK_THROWS(step(arena, [] {
    const at::Tensor a = floats(1000, 1);
    throw 1;
  }));
  CHECK(arena.use().plans == 0);
  CHECK(StepArena::of_thread() == nullptr);
  step(arena, chain);
  const auto of_other = [] {
    StepArena own;
    for (int round = 0; round < 3; ++round) step(own, chain);
    return own.use().placed_bytes;
  };
  std::int64_t placed = 0;
  step(arena, [&] {
    std::thread([&] { placed = of_other(); }).join();
    chain();
  });
  CHECK(placed == 16'000);
  CHECK(arena.use().placed_bytes == 16'000);
}

TEST_CASE("memory that is freed is NaN where tests ask for it") {
  StepArena arena;
  step(arena, chain);
  ArenaMemory::poison(true);
  step(arena, [] {
    at::Tensor a = at::empty({1000});
    const float* const data = a.data_ptr<float>();
    CHECK(std::isnan(data[999]));
    a.fill_(1);
    a.reset();
    CHECK(std::isnan(data[0]));
  });
  ArenaMemory::poison(false);
}

}  // namespace llmtrain::test
