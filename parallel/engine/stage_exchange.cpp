// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/stage_exchange.h"

#include <utility>

namespace llmtrain {

void StageExchange::start(std::size_t stages, std::size_t micros) {
  micros_ = micros;
  for (auto* slots : {&activations_, &gradients_}) {
    slots->clear();
    slots->resize(stages * micros);
  }
}

StageExchange::Slot& StageExchange::slot(Channel channel, std::size_t stage, std::size_t micro) {
  return (channel == Channel::activations ? activations_ : gradients_)[stage * micros_ + micro];
}

void StageExchange::put(Channel channel, std::size_t stage, std::size_t micro, at::Tensor tensor) {
  slot(channel, stage, micro).tensor = std::move(tensor);
}

at::Tensor StageExchange::take(Channel channel, std::size_t stage, std::size_t micro) {
  Slot& slot = this->slot(channel, stage, micro);
  slot.arriving.wait();
  return std::move(slot.tensor);
}

void StageExchange::send(Channel channel, std::size_t stage, std::size_t micro, int position) {
  drop_sent();
  at::Tensor tensor = take(channel, stage, micro).contiguous();
  Handle handle = pipeline_.send(channel, tensor, position);
  sending_.push_back({std::move(tensor), std::move(handle)});
}

void StageExchange::receive(Channel channel, std::size_t stage, std::size_t micro, at::Tensor tensor, int position) {
  Slot& slot = this->slot(channel, stage, micro);
  slot.tensor = std::move(tensor);
  slot.arriving = pipeline_.receive(channel, slot.tensor, position);
}

void StageExchange::drop_sent() {
  std::erase_if(sending_, [](const Sending& sending) { return sending.handle.done(); });
}

void StageExchange::finish() {
  for (Sending& sending : sending_) sending.handle.wait();
  sending_.clear();
}

}  // namespace llmtrain
