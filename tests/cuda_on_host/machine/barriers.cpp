// SPDX-License-Identifier: Apache-2.0
// Where threads of a block and lanes of a warp wait for each other.
#include <cstring>
#include <string>

#include "tests/cuda_on_host/machine/launch.h"
#include "tests/cuda_on_host/machine/machine.h"
#include "tests/cuda_on_host/machine/sanitizers.h"

namespace cuda_on_host {
namespace {

Warp& own_warp() { return machine.warps[machine.current->number / 32]; }

void wait(const char* what, const Place& place, unsigned mask) {
  Fiber& self = *machine.current;
  self.waits_for = what;
  self.place = place;
  self.mask = mask;
  give_way();
}

void open_block_barrier() {
  for (Fiber* fiber : machine.at_barrier) wake(fiber);
  machine.at_barrier.clear();
}

unsigned existing_lanes() {
  const auto threads = static_cast<unsigned>(machine.of_thread.size());
  const unsigned first = machine.current->number / 32 * 32;
  return threads - first >= 32 ? 0xffffffffU : (1U << (threads - first)) - 1;
}

WarpOperation& operation_of(Warp& warp, unsigned mask) {
  for (auto& each : warp.operations)
    if (each->mask == mask) return *each;
  warp.operations.push_back(std::make_unique<WarpOperation>());
  warp.operations.back()->mask = mask;
  return *warp.operations.back();
}

bool is_same(const char* what, const char* other) { return what == other || std::strcmp(what, other) == 0; }

// The operation that the calling lane joins; fails where not all lanes of the mask can.
WarpOperation& join(unsigned mask, const char* what, std::size_t bytes, const Place& place) {
  // Every lane comes here at every exchange: texts are made only where one fails.
  const auto refuse = [&](const char* why) { fail(std::string(what) + why, place); };
  Warp& warp = own_warp();
  if ((mask & 1U << lane()) == 0) refuse(": the calling lane is not in its mask");
  if ((mask & ~existing_lanes()) != 0) refuse(": its mask has lanes that the block has not");
  if ((mask & warp.ended) != 0) refuse(": its mask has lanes that have ended");
  WarpOperation& operation = operation_of(warp, mask);
  if (operation.arrived == 0) {
    operation.what = what;
    operation.place = place;
    operation.bytes = bytes;
  } else if (operation.place.line != place.line || !is_same(what, operation.what) || operation.bytes != bytes) {
    fail(std::string(what) + " meets " + operation.what + " of " + text_of(operation.place), place);
  }
  return operation;
}

// Returns when all lanes have arrived.
void arrive(WarpOperation& operation, const Place& place) {
  const Fiber& self = *machine.current;
  operation.arrived |= 1U << lane();
  if (operation.arrived != operation.mask) {
    wait(operation.what, place, operation.mask);
    return;
  }
  operation.arrived = 0;
  ++operation.generation;
  const unsigned first = self.number / 32 * 32;
  for (unsigned i = 0; i < 32; ++i)
    if ((operation.mask >> i & 1U) != 0 && first + i != self.number) wake(machine.of_thread[first + i]);
}

}  // namespace

unsigned lane() { return machine.current->number % 32; }

void fail(const std::string& message, const Place& place) {
  throw KernelError(text_of(place) + ": thread " + std::to_string(machine.current->number) + " of block " +
                    std::to_string(block_index.x) + ": " + message);
}

void wake(Fiber* fiber) {
  fiber->waits_for = nullptr;
  machine.next.push_back(fiber);
}

void end_thread() {
  machine.current->has_ended = true;
  --machine.alive;
  own_warp().ended |= 1U << lane();
  if (!machine.at_barrier.empty() && machine.at_barrier.size() == machine.alive) open_block_barrier();
}

void block_barrier(const Place& place) {
  if (machine.at_barrier.empty()) {
    machine.barrier_place = place;
  } else if (machine.barrier_place.line != place.line) {
    fail("__syncthreads() meets the one of " + text_of(machine.barrier_place), place);
  }
  __tsan_release(&machine.block_waits);
  if (machine.at_barrier.size() + 1 == machine.alive) {
    open_block_barrier();
  } else {
    machine.at_barrier.push_back(machine.current);
    wait("__syncthreads()", place, 0);
  }
  __tsan_acquire(&machine.block_waits);
}

void warp_barrier(unsigned mask, const Place& place) {
  WarpOperation& operation = join(mask, "__syncwarp", 0, place);
  __tsan_release(&operation.ordered);
  arrive(operation, place);
  __tsan_acquire(&operation.ordered);
}

const std::byte* exchange(unsigned mask, const void* value, std::size_t bytes, const char* what, const Place& place) {
  if (bytes > largest_exchange) fail(std::string(what) + ": lanes exchange at most 16 bytes", place);
  WarpOperation& operation = join(mask, what, bytes, place);
  std::byte* const values = operation.values[operation.generation % 2];
  // Not std::memcpy(), whose interceptor would tell the thread sanitizer.
  auto* to = reinterpret_cast<volatile unsigned char*>(values + lane() * bytes);
  for (std::size_t i = 0; i < bytes; ++i) to[i] = static_cast<const unsigned char*>(value)[i];
  arrive(operation, place);
  return values;
}

}  // namespace cuda_on_host
