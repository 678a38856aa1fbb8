// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/reduction/ordered_reduction.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/machine/processor.h"
#include "parallel/comm/reduction/loops.h"

namespace llmtrain {
namespace {

using reduction_loops::block_elements;
using reduction_loops::Loops;
using reduction_loops::LoopTable;

const LoopTable& best_table() {
#if defined(__x86_64__)
  const int level = instruction_set_level();
  if (level == 4) return reduction_loops::loop_table<4>();
  if (level == 3) return reduction_loops::loop_table<3>();
  return reduction_loops::loop_table<2>();
#else
  return reduction_loops::loop_table<0>();
#endif
}

const Loops& loops_for(ElementType type) {
  // Chosen at run time, so that one program uses the best instructions of every node.
  static const LoopTable& table = best_table();
  return table[static_cast<std::size_t>(type)];
}

// One block of elements, of at most 8 bytes each.
struct alignas(64) Block {
  std::byte bytes[block_elements * 8];
};

bool is_aligned(const void* address, std::size_t size) { return reinterpret_cast<std::uintptr_t>(address) % size == 0; }

const void* at_offset(const void* address, std::size_t bytes) { return static_cast<const std::byte*>(address) + bytes; }

}  // namespace

void reduce_in_order(const ReductionTask& task) {
  const Loops& loops = loops_for(task.type);
  const Loops::Combine combine = loops.combine[static_cast<std::size_t>(task.reduction)];
  const auto size = static_cast<std::size_t>(element_size(task.type));
  // On the stack: no allocation per call.
  Block accumulator, staged;
  for (std::size_t begin = 0; begin < static_cast<std::size_t>(task.count); begin += block_elements) {
    const std::size_t count = std::min(block_elements, static_cast<std::size_t>(task.count) - begin);
    for (std::size_t i = 0; i < task.sources.size(); ++i) {
      const void* source = at_offset(task.sources[i], begin * size);
      // The loops assume aligned elements, which receive buffers and caller memory need not be.
      if (!is_aligned(source, size)) source = std::memcpy(staged.bytes, source, count * size);
      // Loaded and not added to 0, so that −0 keeps its sign; maxima need no neutral element either.
      (i == 0 ? loops.load : combine)(accumulator.bytes, source, count);
    }
    // Rounded once, into a block that stays in the first-level cache, regardless of the number of destinations.
    const bool is_narrow = task.type != ElementType::float32 && size <= 2;
    if (is_narrow) loops.store(staged.bytes, accumulator.bytes, count);
    for (void* destination : task.destinations) {
      std::memcpy(static_cast<std::byte*>(destination) + begin * size, is_narrow ? staged.bytes : accumulator.bytes,
                  count * size);
    }
  }
}

}  // namespace llmtrain
