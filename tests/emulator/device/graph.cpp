// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/graph.h"

#include "tests/emulator/device/fault.h"
#include "tests/emulator/device/memory/graph_pool.h"
#include "tests/emulator/device/world.h"

namespace emulated {
namespace {

thread_local int captures = 0;  // under way

}  // namespace

bool is_capturing() { return captures > 0; }

Graph::~Graph() {
  const std::lock_guard lock(world().mutex);
  if (stream_ != nullptr && stream_->capture == this) end();
  if (pool_ != nullptr) leave(*pool_);
}

void Graph::begin(Stream* stream, const Graph* beside) {
  const std::lock_guard lock(world().mutex);
  if (stream->capture != nullptr) throw Fault("the stream is captured already");
  if (pool_ != nullptr) throw Fault("a graph is captured twice");
  if (beside != nullptr && (beside->pool_ == nullptr || beside->pool_->device != stream->device))
    throw Fault("a graph has no memory on the device of the capture that is to share it");
  pool_ = beside != nullptr ? beside->pool_ : std::make_shared<GraphPool>(GraphPool{.device = stream->device});
  ++pool_->graphs;
  stream_ = stream;
  stream->capture = this;
  ++captures;
}

void Graph::end() {
  const std::lock_guard lock(world().mutex);
  if (stream_ == nullptr || stream_->capture != this) throw Fault("a capture ends that has not begun");
  stream_->capture = nullptr;
  --captures;
}

void Graph::replay(Stream* stream) const {
  const std::lock_guard lock(world().mutex);
  if (stream->capture != nullptr) throw Fault("a graph is launched on a stream that is captured");
  if (pool_ == nullptr || (stream_ != nullptr && stream_->capture == this))
    throw Fault("a graph is launched whose capture has not ended");
  Device& device = world().device(stream->device);
  device.errors.raise();
  ++device.counters.launches;
  pool_->users.insert(stream);
  for (const Node& node : nodes_) run(stream, node.work, node.zones);
}

}  // namespace emulated
