// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/graph.h"

#include "tests/emulator/device/fault.h"
#include "tests/emulator/device/memory/device_memory.h"
#include "tests/emulator/device/world.h"

namespace emulated {

Graph::~Graph() {
  const std::lock_guard lock(world().mutex);
  if (stream_ != nullptr && stream_->capture == this) end();
  for (void* memory : kept_) {
    Device& d = world().device(device_of_memory(memory));
    const auto* const begin = static_cast<const char*>(memory);
    Block& block = d.blocks.at(begin);
    block.is_free = true;
    d.free_blocks[{block.stream, block.bytes}].push_back(begin);
  }
}

void Graph::begin(Stream* stream) {
  const std::lock_guard lock(world().mutex);
  if (stream->capture != nullptr) throw Fault("the stream is captured already");
  stream_ = stream;
  stream->capture = this;
  ++world().captures;
}

void Graph::end() {
  const std::lock_guard lock(world().mutex);
  if (stream_ == nullptr || stream_->capture != this) throw Fault("a capture ends that has not begun");
  stream_->capture = nullptr;
  --world().captures;
}

void Graph::replay(Stream* stream) const {
  for (const Work& work : works_) enqueue(stream, work);
}

}  // namespace emulated
