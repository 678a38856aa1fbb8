// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/data/batch_prefetch.h"

#include "parallel/device/device.h"

namespace llmtrain {

std::vector<PassInput> BatchPrefetch::take(const BatchPlace& place) {
  if (device_.is_cpu()) return load_(place);
  // A run that has returned to a checkpoint asks for another step.
  if (place_ != place) start(place);
  place_.reset();
  return reading_.get().send(device_);
}

void BatchPrefetch::start(const BatchPlace& place) {
  if (device_.is_cpu()) return;
  place_ = place;
  // What was read in vain is thrown away once it is read.
  reading_ = std::async(std::launch::async, [this, place] {
    // Pinned memory belongs to a device's context; without this it would be the first one's.
    use_device(device_);
    return PackedBatch(load_(place));
  });
}

}  // namespace llmtrain
