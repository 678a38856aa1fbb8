// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/offload/host_update.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/host_copy.h"

namespace llmtrain {
namespace {

constexpr std::int64_t largest_element = 4;  // bytes, of fp32

at::Tensor pinned() {
  return at::empty({HostUpdate::piece * largest_element}, at::TensorOptions(at::kByte).pinned_memory(true));
}

// The first bytes of `memory` as `elements` of this type.
at::Tensor seen_as(const at::Tensor& memory, at::ScalarType type, std::int64_t elements) {
  return memory.narrow(0, 0, elements * static_cast<std::int64_t>(c10::elementSize(type))).view(type);
}

}  // namespace

HostUpdate::HostUpdate(const at::Device& device)
    : device_(device),
      incoming_(kernels::copy_stream(device)),
      outgoing_(kernels::copy_stream(device)),
      buffers_{{{pinned(), pinned(), c10::Event(device.type()), c10::Event(device.type())},
                {pinned(), pinned(), c10::Event(device.type()), c10::Event(device.type())}}} {}

at::Tensor HostUpdate::fetch(std::int64_t index, const at::Tensor& from) {
  Buffer& buffer = buffer_of(index);
  const at::Tensor to = seen_as(buffer.gradients, from.scalar_type(), from.numel());
  const c10::StreamGuard guard(incoming_);
  to.copy_(from, true);
  buffer.arrived.record(incoming_);
  return to;
}

void HostUpdate::send(std::int64_t index, const at::Tensor& rounded, const at::Tensor& to) {
  const c10::StreamGuard guard(outgoing_);
  to.copy_(rounded, true);
  buffer_of(index).left.record(outgoing_);
}

void HostUpdate::step(Optimizer& optimizer, OptimizerUpdate of_piece, std::int64_t index, const at::Tensor& weights) {
  const bool rounds = weights.scalar_type() != of_piece.weights.scalar_type();
  Buffer& buffer = buffer_of(index);
  if (weights.is_cpu()) {
    // By now the device has read the old ones: its work of the step is done.
    if (rounds) of_piece.compute_weights = weights;
    return optimizer.update(of_piece);
  }
  buffer.left.synchronize();
  const at::Tensor rounded = seen_as(buffer.weights, weights.scalar_type(), weights.numel());
  if (rounds) of_piece.compute_weights = rounded;
  optimizer.update(of_piece);
  if (!rounds) rounded.copy_(of_piece.weights);
  send(index, rounded, weights);
}

void HostUpdate::run(Optimizer& optimizer, const OptimizerUpdate& update, const at::Tensor& weights, DiskStates* disk) {
  const c10::Stream computing = kernels::current_stream(device_);
  // From here on the gradients are whole, and nothing reads the old weights.
  c10::Event start(device_.type());
  start.record(computing);
  start.block(incoming_);
  start.block(outgoing_);
  const std::int64_t size = disk != nullptr ? StatePieces::most : piece;
  const std::int64_t pieces = (weights.numel() + size - 1) / size;
  const auto interval = [&](std::int64_t i) {
    return FlatInterval{i * size, std::min(weights.numel(), (i + 1) * size)};
  };
  const auto part = [&](const at::Tensor& flat, std::int64_t i) {
    return flat.slice(0, interval(i).begin, interval(i).end);
  };
  const bool are_here = update.gradients.is_cpu();
  // With the device's work of the step.
  if (are_here) start.synchronize();
  const auto gradients_of = [&](std::int64_t i) {
    return are_here ? part(update.gradients, i) : fetch(i, part(update.gradients, i));
  };
  at::Tensor next;
  if (pieces > 0) next = gradients_of(0);
  for (std::int64_t i = 0; i < pieces; ++i) {
    OptimizerUpdate of_piece =
        part_of_update(update, interval(i), disk != nullptr ? disk->begin(i) : std::vector<at::Tensor>());
    of_piece.gradients = next;
    // The buffer's last gradients were those of the piece before, which the host has used.
    if (i + 1 < pieces) next = gradients_of(i + 1);
    if (!are_here) buffer_of(i).arrived.synchronize();
    step(optimizer, std::move(of_piece), i, part(weights, i));
    if (disk != nullptr) disk->end();
  }
  for (Buffer& buffer : buffers_) buffer.left.block(computing);
}

}  // namespace llmtrain
