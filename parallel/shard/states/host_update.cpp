// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/host_update.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "kernels/host_copy.h"

namespace llmtrain {
namespace {

constexpr std::int64_t largest_element = 4;  // bytes, of fp32

at::Tensor pinned() {
  return at::empty({HostUpdate::piece * largest_element}, at::TensorOptions(at::kByte).pinned_memory(true));
}

at::Tensor part_of(const at::Tensor& flat, std::int64_t index) {
  const std::int64_t begin = index * HostUpdate::piece;
  return flat.slice(0, begin, std::min(flat.numel(), begin + HostUpdate::piece));
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

at::Tensor HostUpdate::fetch(std::int64_t index, const at::Tensor& gradients) {
  const at::Tensor from = part_of(gradients, index);
  Buffer& buffer = buffer_of(index);
  const at::Tensor to = seen_as(buffer.gradients, from.scalar_type(), from.numel());
  const c10::StreamGuard guard(incoming_);
  to.copy_(from, true);
  buffer.arrived.record(incoming_);
  return to;
}

void HostUpdate::send(std::int64_t index, const at::Tensor& rounded, const at::Tensor& weights) {
  const c10::StreamGuard guard(outgoing_);
  part_of(weights, index).copy_(rounded, true);
  buffer_of(index).left.record(outgoing_);
}

void HostUpdate::run(Optimizer& optimizer, const OptimizerUpdate& update, const at::Tensor& weights) {
  const c10::Stream computing = kernels::current_stream(device_);
  // From here on the gradients are whole, and nothing reads the old weights.
  c10::Event start(device_.type());
  start.record(computing);
  start.block(incoming_);
  start.block(outgoing_);
  const std::int64_t pieces = (weights.numel() + piece - 1) / piece;
  const bool rounds = weights.scalar_type() != update.weights.scalar_type();
  at::Tensor next;
  if (pieces > 0) next = fetch(0, update.gradients);
  for (std::int64_t i = 0; i < pieces; ++i) {
    OptimizerUpdate of_piece = update;
    of_piece.weights = part_of(update.weights, i);
    of_piece.gradients = next;
    of_piece.begin = update.begin + i * piece;
    // The buffer's last gradients were those of the piece before, which the host has used.
    if (i + 1 < pieces) next = fetch(i + 1, update.gradients);
    Buffer& buffer = buffer_of(i);
    buffer.arrived.synchronize();
    if (weights.is_cpu()) {
      // By now the device has read the old ones: its work of the step is done.
      if (rounds) of_piece.compute_weights = part_of(weights, i);
      optimizer.update(of_piece);
      continue;
    }
    buffer.left.synchronize();
    const at::Tensor rounded = seen_as(buffer.weights, weights.scalar_type(), of_piece.weights.numel());
    if (rounds) of_piece.compute_weights = rounded;
    optimizer.update(of_piece);
    if (!rounds) rounded.copy_(of_piece.weights);
    send(i, rounded, weights);
  }
  for (Buffer& buffer : buffers_) buffer.left.block(computing);
}

}  // namespace llmtrain
