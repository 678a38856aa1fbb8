// SPDX-License-Identifier: Apache-2.0
// The scheduler: which thread of a block runs when.
#include <algorithm>
#include <utility>

#include "tests/cuda_on_host/machine/launch.h"
#include "tests/cuda_on_host/machine/machine.h"
#include "tests/cuda_on_host/machine/shared_memory.h"

namespace cuda_on_host {
namespace {

void prepare_threads(std::size_t threads) {
  // Any fiber may be any thread, so that the thread sanitizer takes no order of blocks for granted.
  machine.of_thread.resize(threads);
  for (std::size_t i = 0; i < threads; ++i) machine.of_thread[i] = machine.fibers[i].get();
  shuffle(machine.of_thread);
  machine.ready.clear();
  machine.next.clear();
  machine.at_barrier.clear();
  // No list grows while a fiber runs: the thread sanitizer would see it.
  for (std::vector<Fiber*>* list : {&machine.ready, &machine.next, &machine.at_barrier}) list->reserve(threads);
  machine.alive = static_cast<unsigned>(threads);
  for (unsigned i = 0; i < threads; ++i) {
    prepare(*machine.of_thread[i], i);
    machine.next.push_back(machine.of_thread[i]);
  }
}

void prepare_warps(std::size_t threads) {
  machine.warps.resize((threads + 31) / 32);
  machine.rank.resize(machine.warps.size());
  for (unsigned i = 0; i < machine.rank.size(); ++i) machine.rank[i] = i;
  shuffle(machine.rank);
  for (Warp& warp : machine.warps) {
    warp.operations.reserve(64);
    warp.ended = 0;
    for (auto& operation : warp.operations) operation->arrived = 0;
  }
}

// Makes ready the threads of one warp: the first in the order of machine.rank of which some may run.
void take_first_warp() {
  const auto rank_of = [](const Fiber* fiber) { return machine.rank[fiber->number / 32]; };
  unsigned first = ~0U;
  for (const Fiber* fiber : machine.next) first = std::min(first, rank_of(fiber));
  machine.ready.clear();
  std::erase_if(machine.next, [&](Fiber* fiber) {
    if (rank_of(fiber) != first) return false;
    machine.ready.push_back(fiber);
    return true;
  });
}

void take_all() {
  machine.ready.swap(machine.next);
  machine.next.clear();
}

}  // namespace

std::uint64_t draw() {
  std::uint64_t& x = machine.random;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return x;
}

void run_block(std::size_t threads) {
  ++counts.blocks;
  counts.threads += threads;
  renew_shared_memory();
  prepare_threads(threads);
  prepare_warps(threads);
  // Every second block goes on in rounds, in which each thread that may run does so once. In the others one warp runs
  // as far ahead of the rest as barriers allow, which shows what is overwritten before all have read it.
  const bool is_greedy = !machine.in_order && draw() % 2 == 0;
  while (machine.alive > 0) {
    if (machine.next.empty()) {
      machine.failure = description_of_deadlock();
      return;
    }
    is_greedy ? take_first_warp() : take_all();
    shuffle(machine.ready);
    for (Fiber* fiber : machine.ready) {
      continue_fiber(*fiber);
      if (!machine.failure.empty()) return;
    }
  }
  if (const char* overrun = overrun_of_shared_memory(); overrun != nullptr)
    machine.failure = "block " + std::to_string(block_index.x) + ": " + overrun;
}

}  // namespace cuda_on_host
