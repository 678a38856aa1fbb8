// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_on_host/machine/fiber.h"

#include <sys/mman.h>

#include <cstdlib>

#include "tests/cuda_on_host/machine/launch.h"
#include "tests/cuda_on_host/machine/machine.h"
#include "tests/cuda_on_host/machine/sanitizers.h"

namespace cuda_on_host {
namespace {

namespace context = boost::context::detail;

constexpr std::size_t stack_bytes = 256 << 10, page_bytes = 4096, most_copies = 256;

// The stack's lowest page stays closed, so that who needs more ends there and not in another thread's stack.
std::byte* new_stack() {
  void* memory = ::mmap(nullptr, page_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || ::mprotect(memory, page_bytes, PROT_NONE) != 0) std::abort();
  return static_cast<std::byte*>(memory) + page_bytes;
}

void run_thread(context::transfer_t from) {
  machine.current->context = from.fctx;
  __sanitizer_finish_switch_fiber(machine.current->fake_stack, &machine.scheduler_stack,
                                  &machine.scheduler_stack_bytes);
  __tsan_acquire(&machine.launch_begins);
  try {
    (*machine.thread)();
  } catch (const KernelError& error) {
    if (machine.failure.empty()) machine.failure = error.what();
  }
  __tsan_release(&machine.launch_ends);
  end_thread();
  give_way();
  std::abort();
}

}  // namespace

void prepare(Fiber& fiber, unsigned number) {
  if (fiber.stack == nullptr) {
    fiber.stack = new_stack();
    fiber.fake_stack = nullptr;
    fiber.for_thread_sanitizer = __tsan_create_fiber(0);
    fiber.copies.reserve(most_copies);  // not while a fiber runs: the thread sanitizer would see it
  }
  fiber.number = number;
  fiber.index = {number % block_size.x, number / block_size.x % block_size.y, number / block_size.x / block_size.y};
  fiber.has_ended = false;
  fiber.waits_for = nullptr;
  fiber.copies.clear();
  fiber.open_group = 0;
  fiber.context = context::make_fcontext(fiber.stack + stack_bytes, stack_bytes, run_thread);
}

void continue_fiber(Fiber& fiber) {
  machine.current = &fiber;
  thread_index = fiber.index;
  ++counts.switches;
  __sanitizer_start_switch_fiber(&machine.scheduler_fake_stack, fiber.stack, stack_bytes);
  __tsan_switch_to_fiber(fiber.for_thread_sanitizer, unordered_switch);
  fiber.context = context::jump_fcontext(fiber.context, nullptr).fctx;
  __sanitizer_finish_switch_fiber(machine.scheduler_fake_stack, nullptr, nullptr);
}

void abandon(Fiber& fiber) {
  fiber.stack = nullptr;
  // As if it had ended: what it has done lies before what the caller of the launch does next.
  __tsan_switch_to_fiber(fiber.for_thread_sanitizer, unordered_switch);
  __tsan_release(&machine.launch_ends);
  __tsan_switch_to_fiber(machine.scheduler_fiber, unordered_switch);
}

void give_way() {
  Fiber& self = *machine.current;
  // Kept also when the thread has ended: to map another one for each thread takes the address sanitizer longer than all
  // that the threads do.
  __sanitizer_start_switch_fiber(&self.fake_stack, machine.scheduler_stack, machine.scheduler_stack_bytes);
  __tsan_switch_to_fiber(machine.scheduler_fiber, unordered_switch);
  self.context = context::jump_fcontext(self.context, nullptr).fctx;
  __sanitizer_finish_switch_fiber(self.fake_stack, nullptr, nullptr);
}

void copy_later(const LateCopy& copy, const Place& place) {
  Fiber& self = *machine.current;
  if (self.copies.size() == most_copies) fail("a thread has more than 256 copies under way", place);
  self.copies.push_back({copy, self.open_group});
}

void commit_copies() { ++machine.current->open_group; }

bool take_copy(int left, LateCopy& copy) {
  Fiber& self = *machine.current;
  const bool must_arrive =
      !self.copies.empty() && self.copies.front().group + static_cast<unsigned>(left) < self.open_group;
  if (!must_arrive) return false;
  copy = self.copies.front().copy;
  self.copies.erase(self.copies.begin());
  return true;
}

}  // namespace cuda_on_host
