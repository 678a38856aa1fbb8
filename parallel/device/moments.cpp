// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/moments.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace llmtrain {

void Moments::note() {
  if (device_.is_cpu()) {
    seconds_.push_back(now());
    return;
  }
  events_.emplace_back(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  events_.back().record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
}

// Events measure only the time between each other: the host's time of the last one anchors the others.
std::vector<double> Moments::take() {
  if (!events_.empty()) {
    events_.back().synchronize();
    const double end = now();
    for (const c10::Event& event : events_) seconds_.push_back(end - event.elapsedTime(events_.back()) * 1e-3);
    events_.clear();
  }
  return std::exchange(seconds_, {});
}

}  // namespace llmtrain
