// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/state_copy.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "kernels/host_copy.h"
#include "parallel/device/device.h"

namespace llmtrain {

StateCopy::StateCopy(const at::Device& device, std::vector<Piece> pieces)
    : device_(device),
      pieces_(std::move(pieces)),
      // The usual priority: copies may wait for the step's, which others wait for.
      stream_(kernels::copy_stream(device)),
      start_(device.type()),
      end_(device.type()) {
  start_.record(kernels::current_stream(device_));
}

void StateCopy::run() {
  use_device(device_);
  try {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 2; ++i)
      buffers.push_back({at::empty({state_copy_buffer}, at::TensorOptions(at::kByte).pinned_memory(true)),
                         {},
                         0,
                         c10::Event(device_.type())});
    copy_all(buffers);
    end_.record(stream_);
    enqueued_.set_value();
    for (Buffer& buffer : buffers) unload(buffer);
    pieces_.clear();
  } catch (...) {
    // Whoever waits must not wait for ever; that what it computes may be torn does not matter any more.
    try {
      enqueued_.set_value();
    } catch (const std::future_error&) {
      // The copies were under way already.
    }
    throw;
  }
}

void StateCopy::release() {
  enqueued_.get_future().wait();
  end_.block(kernels::current_stream(device_));
}

// Leaves up to two buffers under way. One is unloaded while the other one fills.
void StateCopy::copy_all(std::vector<Buffer>& buffers) {
  const c10::StreamGuard guard(stream_);
  start_.block(stream_);
  Buffer *filling = &buffers[0], *other = &buffers[1];
  for (const auto& [from, to] : pieces_) {
    if (from.is_cpu()) {
      std::memcpy(to, from.const_data_ptr(), from.nbytes());
      continue;
    }
    const at::Tensor bytes = from.reshape({-1}).view(at::kByte);
    for (std::int64_t begin = 0; begin < bytes.numel();) {
      const std::int64_t count =
          std::min(bytes.numel() - begin, state_copy_buffer - static_cast<std::int64_t>(filling->used));
      add(*filling, bytes.narrow(0, begin, count), to + begin);
      begin += count;
      if (static_cast<std::int64_t>(filling->used) < state_copy_buffer) continue;
      filling->end.record(stream_);
      unload(*other);
      std::swap(filling, other);
    }
  }
  filling->end.record(stream_);
}

void StateCopy::add(Buffer& buffer, const at::Tensor& bytes, std::byte* to) const {
  const auto count = static_cast<std::size_t>(bytes.numel());
  buffer.memory.narrow(0, static_cast<std::int64_t>(buffer.used), bytes.numel()).copy_(bytes, true);
  buffer.parts.push_back({buffer.used, count, to});
  buffer.used += count;
}

// Waits for the buffer's copies, and empties it.
void StateCopy::unload(Buffer& buffer) {
  if (buffer.parts.empty()) return;
  buffer.end.synchronize();
  const auto* memory = static_cast<const std::byte*>(buffer.memory.const_data_ptr());
  for (const Buffer::Part& part : buffer.parts) std::memcpy(part.to, memory + part.begin, part.bytes);
  buffer.parts.clear();
  buffer.used = 0;
}

}  // namespace llmtrain
