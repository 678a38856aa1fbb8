// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <future>
#include <optional>
#include <utility>
#include <vector>

#include "parallel/engine/data/batch_loader.h"

namespace llmtrain {

// Reads the batches of a GPU's steps, each by a thread of its own while the device computes the step before: the device
// never waits for a disk, and no copy to it for a step's end. Used by one thread.
class BatchPrefetch {
 public:
  // The micro-batches of a step on the host; any thread calls it.
  using Load = std::function<std::vector<PassInput>(const BatchPlace&)>;

  BatchPrefetch(const at::Device& device, Load load) : device_(device), load_(std::move(load)) {}
  // Waits while a batch is read.
  ~BatchPrefetch() = default;

  // The micro-batches of a step, on the device. Waits until they are read, but for no work of the device. Throws what
  // reading them throws.
  std::vector<PassInput> take(const BatchPlace& place);

  // Begins to read those of the step that take() will be asked for next; if that turns out to be another one, in vain.
  // On a CPU, which a reading thread would disturb, nothing.
  void start(const BatchPlace& place);

 private:
  at::Device device_;
  Load load_;
  std::optional<BatchPlace> place_;  // of what is being read
  std::future<PackedBatch> reading_;
};

}  // namespace llmtrain
