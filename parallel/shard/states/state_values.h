// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstddef>
#include <utility>

#include "parallel/layout/flat_shards.h"
#include "parallel/shard/states/disk_states.h"

namespace llmtrain {

// Where the values of a state are worked with: on the host where a file has them, and the state is on the Meta device.
inline at::Device values_device(const at::Tensor& state) {
  return state.is_meta() ? at::Device(at::kCPU) : state.device();
}

// Flat values of a rank's owned elements, in memory or in a file. The memory, or the file's states, outlive it.
class StateValues {
 public:
  // Memory: of a processor or a GPU.
  explicit StateValues(at::Tensor memory) : memory_(std::move(memory)) {}
  // On the disk, like `shape` on the Meta device.
  StateValues(at::Tensor shape, const DiskStates& disk, std::size_t state)
      : memory_(std::move(shape)), disk_(&disk), state_(state) {}

  bool is_on_disk() const { return disk_ != nullptr; }
  at::ScalarType type() const { return memory_.scalar_type(); }
  const at::Tensor& memory() const { return memory_; }

  // The values of an interval: a view of the memory, or a copy.
  at::Tensor read(const FlatInterval& elements) const {
    const at::Tensor part = memory_.slice(0, elements.begin, elements.end);
    if (disk_ == nullptr) return part;
    const at::Tensor copy = at::empty(part.sizes(), part.options().device(at::kCPU));
    disk_->read(state_, elements.begin, copy);
    return copy;
  }

  // Calls fill(values) with memory for the values of an interval, which are those that it leaves there.
  template <class Fill>
  void write(const FlatInterval& elements, Fill fill) const {
    const at::Tensor part = memory_.slice(0, elements.begin, elements.end);
    if (disk_ == nullptr) return fill(part);
    const at::Tensor copy = at::empty(part.sizes(), part.options().device(at::kCPU));
    fill(copy);
    disk_->write(state_, elements.begin, copy);
  }

  // Calls take(elements, values) for the values one after another: all at once of memory, else in pieces.
  template <class Take>
  void for_pieces(Take take) const {
    const std::int64_t count = memory_.numel(), most = disk_ == nullptr ? count : StatePieces::most;
    for (std::int64_t begin = 0; begin < count; begin += most) {
      const FlatInterval piece{begin, std::min(count, begin + most)};
      take(piece, read(piece));
    }
  }

 private:
  at::Tensor memory_;
  const DiskStates* disk_ = nullptr;
  std::size_t state_ = 0;
};

}  // namespace llmtrain
