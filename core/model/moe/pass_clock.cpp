// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/pass_clock.h"

#include <c10/core/Event.h>

#include "core/base/elapsed_time.h"
#include "kernels/host_copy.h"

namespace llmtrain {
namespace {

std::shared_ptr<c10::Event> recorded(const c10::Device& device) {
  auto event = std::make_shared<c10::Event>(device.type(), c10::EventFlag::BACKEND_DEFAULT);  // one that has a time
  event->record(kernels::current_stream(device));
  return event;
}

}  // namespace

PassClock::PassClock(const c10::Device& device) : device_(device), start_(std::chrono::steady_clock::now()) {
  if (!device.is_cpu()) start_event_ = recorded(device);
}

std::function<double()> PassClock::stop() const {
  if (!start_event_) return [seconds = seconds_since(start_)] { return seconds; };
  return [start = start_event_, end = recorded(device_)] {
    if (!end->query()) end->synchronize();
    return start->elapsedTime(*end) / 1000;
  };
}

}  // namespace llmtrain
