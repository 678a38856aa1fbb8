// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/stage_exchange.h"

#include <ATen/ops/empty.h>

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

// Every tensor rank holds the same tensor: sending a part each divides the traffic between stages by the tensor ranks.
bool StageExchange::travels_in_parts(std::int64_t rows) const {
  const TensorParallel& tensor = model_.groups().tensor;
  return tensor.ranks() > 1 && tensor.rows() == ActivationRows::whole && rows % tensor.ranks() == 0;
}

at::Tensor StageExchange::take(Channel channel, std::size_t stage, std::size_t micro) {
  Slot& slot = this->slot(channel, stage, micro);
  slot.arriving.wait();
  at::Tensor tensor = std::move(slot.tensor);
  // The gather is delayed until the tensor is used: it is collective over the tensor ranks, which all take it here.
  return slot.is_part ? model_.groups().tensor.gather_rows(tensor, Purpose::pipeline) : tensor;
}

void StageExchange::send(Channel channel, std::size_t stage, std::size_t micro, int position) {
  // Tensors that have arrived are released here, or all those of a step would be held until finish().
  std::erase_if(sending_, [](const Sending& sending) { return sending.handle.done(); });
  at::Tensor tensor = take(channel, stage, micro).contiguous();
  if (travels_in_parts(tensor.size(0))) {
    const std::int64_t rows = tensor.size(0) / model_.groups().tensor.ranks();
    // A view of contiguous rows needs no copy; it keeps the whole tensor's memory alive.
    tensor = tensor.narrow(0, model_.groups().tensor.position() * rows, rows);
  }
  Handle handle = model_.groups().pipeline.send(channel, tensor, position);
  sending_.push_back({std::move(tensor), std::move(handle)});
}

void StageExchange::receive(Channel channel, std::size_t stage, std::size_t micro, std::int64_t tokens, int position) {
  Slot& slot = this->slot(channel, stage, micro);
  const bool is_split = model_.groups().tensor.rows() == ActivationRows::split;
  slot.is_part = travels_in_parts(tokens);
  const std::int64_t rows = is_split || slot.is_part ? tokens / model_.groups().tensor.ranks() : tokens;
  // Allocated when the receive is posted, so that the sender never waits for memory.
  slot.tensor = at::empty({rows, model_.graph().model.hidden_size},
                          at::TensorOptions(model_.device()).dtype(model_.compute_type()));
  slot.arriving = model_.groups().pipeline.receive(channel, slot.tensor, position);
}

void StageExchange::finish() {
  for (Sending& sending : sending_) sending.handle.wait();
  sending_.clear();
}

}  // namespace llmtrain
