// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/stage_exchange.h"

#include <ATen/ops/empty.h>

#include <span>
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

void StageExchange::put(Channel channel, std::size_t stage, std::size_t micro, Tensors tensors) {
  slot(channel, stage, micro).tensors = std::move(tensors);
}

// Every tensor rank holds the same tensor: sending a part each divides the traffic between stages by the tensor ranks.
bool StageExchange::travels_in_parts(std::int64_t rows) const {
  const TensorParallel& tensor = model_.groups().tensor;
  return tensor.ranks() > 1 && tensor.rows() == ActivationRows::whole && rows % tensor.ranks() == 0;
}

Tensors StageExchange::take(Channel channel, std::size_t stage, std::size_t micro) {
  Slot& slot = this->slot(channel, stage, micro);
  for (Arrival& arrival : slot.arrivals) arrival.handle.wait();
  Tensors tensors = std::move(slot.tensors);
  // The gather is delayed until a tensor is used: it is collective over the tensor ranks, which all take it here.
  for (std::size_t i = 0; i < slot.arrivals.size(); ++i)
    if (slot.arrivals[i].is_part) tensors[i] = model_.groups().tensor.gather_rows(tensors[i], Purpose::pipeline);
  return tensors;
}

void StageExchange::send(Channel channel, std::size_t stage, std::size_t micro, int position) {
  // Tensors that have arrived are released here, or all those of a step would be held until finish().
  std::erase_if(sending_, [](const Sending& sending) { return sending.handle.done(); });
  for (const at::Tensor& tensor : take(channel, stage, micro)) send(channel, tensor, position);
}

void StageExchange::send(Channel channel, const at::Tensor& whole, int position) {
  at::Tensor tensor = whole.contiguous();
  if (travels_in_parts(tensor.size(0))) {
    const std::int64_t rows = tensor.size(0) / model_.groups().tensor.ranks();
    // A view of contiguous rows needs no copy; it keeps the whole tensor's memory alive.
    tensor = tensor.narrow(0, model_.groups().tensor.position() * rows, rows);
  }
  Handle handle = model_.groups().pipeline.send(channel, tensor, position);
  sending_.push_back({std::move(tensor), std::move(handle)});
}

void StageExchange::receive(Channel channel, std::size_t stage, std::size_t micro, const Batch& batch, int position) {
  const Partition& partition = model_.layout().partition();
  // Activations come across the cut before the stage, gradients across the one behind it.
  const std::span<const std::size_t> values =
      channel == Channel::activations ? partition.stages[stage].incoming : partition.outgoing(stage);
  Slot& slot = this->slot(channel, stage, micro);
  for (const std::size_t value : values)
    slot.tensors.push_back(receive(channel, model_.graph().values[value], batch, position, slot));
}

at::Tensor StageExchange::receive(Channel channel, const Value& value, const Batch& batch, int position, Slot& slot) {
  const TensorParallel& tensor = model_.groups().tensor;
  const std::int64_t tokens = batch.rows[value.rows].rows();
  const bool is_part = travels_in_parts(tokens);
  c10::SmallVector<std::int64_t, 4> shape{tensor.rows() == ActivationRows::split || is_part ? tokens / tensor.ranks()
                                                                                            : tokens};
  shape.append(value.features.begin(), value.features.end());
  // Allocated when the receive is posted, so that the sender never waits for memory.
  at::Tensor received = at::empty(shape, at::TensorOptions(model_.device()).dtype(model_.compute_type()));
  slot.arrivals.push_back({model_.groups().pipeline.receive(channel, received, position), is_part});
  return received;
}

void StageExchange::finish() {
  for (Sending& sending : sending_) sending.handle.wait();
  sending_.clear();
}

}  // namespace llmtrain
