// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/offload/host_update.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <optional>
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

void HostUpdate::step(OptimizerUpdate of_piece, std::int64_t index, UpdatePass pass, const PieceUpdate& make) {
  const std::optional<at::Tensor> weights = of_piece.compute_weights;
  // By now the device has read the old ones: its work of the step is done.
  if (pass != UpdatePass::update || !weights || weights->is_cpu()) return make(of_piece);
  Buffer& buffer = buffer_of(index);
  buffer.left.synchronize();
  of_piece.compute_weights = seen_as(buffer.weights, weights->scalar_type(), weights->numel());
  make(of_piece);
  send(index, *of_piece.compute_weights, *weights);
}

void HostUpdate::run(Optimizer& optimizer, const OptimizerUpdate& update, DiskStates* disk) {
  run(update, disk, UpdatePass::update, [&](const OptimizerUpdate& of_piece) {
    const std::optional<at::Tensor>& weights = of_piece.compute_weights;
    if (!weights || weights->scalar_type() != of_piece.weights.scalar_type()) return optimizer.update(of_piece);
    OptimizerUpdate alone = of_piece;
    alone.compute_weights.reset();
    optimizer.update(alone);
    weights->copy_(of_piece.weights);
  });
}

void HostUpdate::run(const OptimizerUpdate& update, DiskStates* disk, UpdatePass pass, const PieceUpdate& make) {
  const c10::Stream computing = kernels::current_stream(device_);
  // From here on the gradients are whole, and nothing reads the old weights.
  c10::Event start(device_.type());
  start.record(computing);
  start.block(incoming_);
  start.block(outgoing_);
  const std::int64_t size = disk != nullptr ? StatePieces::most : piece;
  const std::int64_t elements = update.weights.numel(), pieces = (elements + size - 1) / size;
  const auto interval = [&](std::int64_t i) { return FlatInterval{i * size, std::min(elements, (i + 1) * size)}; };
  const bool are_here = update.gradients.is_cpu();
  // With the device's work of the step.
  if (are_here) start.synchronize();
  const auto gradients_of = [&](std::int64_t i) {
    const at::Tensor of_piece = update.gradients.slice(0, interval(i).begin, interval(i).end);
    return are_here ? of_piece : fetch(i, of_piece);
  };
  at::Tensor next;
  if (pieces > 0) next = gradients_of(0);
  for (std::int64_t i = 0; i < pieces; ++i) {
    OptimizerUpdate of_piece =
        part_of_update(update, interval(i), disk != nullptr ? disk->begin(i, pass) : std::vector<at::Tensor>());
    of_piece.gradients = next;
    // The buffer's last gradients were those of the piece before, which the host has used.
    if (i + 1 < pieces) next = gradients_of(i + 1);
    if (!are_here) buffer_of(i).arrived.synchronize();
    step(std::move(of_piece), i, pass, make);
    if (disk != nullptr) disk->end(pass);
  }
  for (Buffer& buffer : buffers_) buffer.left.block(computing);
}

}  // namespace llmtrain
