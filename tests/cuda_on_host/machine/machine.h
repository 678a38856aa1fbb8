// SPDX-License-Identifier: Apache-2.0
// The state of the launch in progress.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_on_host/language/warp.h"
#include "tests/cuda_on_host/machine/fiber.h"

namespace cuda_on_host {

// One exchange or barrier after another among the lanes of a mask.
struct WarpOperation {
  unsigned mask = 0, arrived = 0;
  const char* what = nullptr;
  Place place;
  std::size_t bytes = 0;
  std::uint64_t generation = 0;
  // Two, as a lane may be in its next exchange before all have read what the last one gave.
  alignas(16) std::byte values[2][32 * largest_exchange];
  char ordered = 0;  // by its address the thread sanitizer knows it
};

struct Warp {
  std::vector<std::unique_ptr<WarpOperation>> operations;  // one for each mask
  unsigned ended = 0;                                      // lanes
};

struct SharedArray {
  const void* tag;
  std::size_t bytes;
  std::byte* memory;
};

struct Machine {
  std::vector<std::unique_ptr<Fiber>> fibers;
  Fiber* current = nullptr;
  const std::function<void()>* thread = nullptr;
  std::string failure;  // of the first thread that failed
  std::uint64_t random = 1;
  bool in_order = false;

  // This block's:
  std::vector<Fiber*> of_thread;
  std::vector<Fiber*> ready;  // may run in this round
  std::vector<Fiber*> next;   // may run in the next one
  std::vector<Warp> warps;
  std::vector<unsigned> rank;  // of each warp, where warps run ahead of others
  std::vector<Fiber*> at_barrier;
  Place barrier_place;
  unsigned alive = 0;
  std::vector<SharedArray> shared;
  std::size_t shared_bytes = 0;
  std::size_t dynamic_bytes = 0;
  std::byte* dynamic = nullptr;

  // What the sanitizers know the scheduler and its order by.
  void* scheduler_fiber = nullptr;
  void* scheduler_fake_stack = nullptr;
  const void* scheduler_stack = nullptr;
  std::size_t scheduler_stack_bytes = 0;
  char launch_begins = 0, launch_ends = 0, block_waits = 0;
};
extern Machine& machine;

// Runs the threads of the block `block_index`; on an error machine.failure is set, and some of them hang.
void run_block(std::size_t threads);

// What every thread of the block waits for.
std::string description_of_deadlock();
std::string text_of(const Place& place);

// From the running fiber: it may run again; it has ended.
void wake(Fiber* fiber);
void end_thread();

// Numbers that depend on the seed alone.
std::uint64_t draw();
template <class List>
void shuffle(List& list) {
  if (machine.in_order) return;
  for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[draw() % i]);
}

}  // namespace cuda_on_host
