// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/util/intrusive_ptr.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/model/block_module.h"

namespace llmtrain {

// Where the activations of a GPU's micro-batches are while no pass reads them: in pinned memory of the host, which
// stays with this object. Copies run on two streams of its own, beside the work of the calling thread's.
class ActivationOffload {
 public:
  explicit ActivationOffload(const at::Device& device);

  // Storages smaller than this, in bytes, stay on the device.
  static constexpr std::int64_t smallest = 1024;
  // Pinned memory comes in pieces of a power of two, since LibTorch would take as much for any number of bytes up to
  // it.
  static constexpr std::int64_t largest_piece = std::int64_t{1} << 25;
  static constexpr std::int64_t smallest_piece = 4096;

  // At least `bytes` of pinned memory.
  std::vector<at::Tensor> take(std::int64_t bytes);
  void give(std::vector<at::Tensor> pieces);

  // For a copy that begins after all that the calling thread has enqueued.
  c10::Stream leaving() const { return after_computing(outgoing_); }
  c10::Stream arriving() const { return after_computing(incoming_); }
  c10::Stream computing() const;
  const at::Device& device() const { return device_; }
  // Pinned memory that it holds, in use or not.
  std::int64_t bytes() const { return bytes_; }

 private:
  c10::Stream after_computing(const c10::Stream& stream) const;

  at::Device device_;
  c10::Stream incoming_, outgoing_;
  std::int64_t bytes_ = 0;
  std::map<std::int64_t, std::vector<at::Tensor>> free_;  // by bytes
};

// What a stage's blocks have saved of one micro-batch, as it goes to the host block by block and comes back in the
// opposite order. What a block has saved leaves while the next one's forward runs, and arrives while the backward of
// the one behind it runs, so that the device has that of two blocks at most. Storages that blocks share travel once.
// Nothing waits on the host. The calling thread is always the same.
class OffloadedActivations {
 public:
  // `where` outlives this.
  OffloadedActivations(ActivationOffload& where, std::size_t blocks) : where_(&where), blocks_(blocks) {}

  // After a block's forward has been enqueued: starts to copy what it has saved, null where it has saved nothing.
  void leave(std::size_t block, SavedActivations* saved);
  // After the last block's: from here on the device has nothing of them.
  void finish_leaving();
  // Before the backward of the block behind it is enqueued: starts to bring back what a block has saved.
  void expect(std::size_t block);
  // Before a block's backward is enqueued, which reads what it has saved from then on.
  void arrive(std::size_t block, SavedActivations* saved);

 private:
  using Storage = c10::weak_intrusive_ptr<c10::StorageImpl>;

  // A storage of the device, and where it is in the host's memory of the block that left with it first.
  struct Copy {
    Storage device;
    std::int64_t bytes = 0, begin = 0;
    std::size_t block = 0;
  };
  // A tensor, as it lies in a storage.
  struct View {
    std::size_t copy = 0;
    std::int64_t offset = 0;
    std::vector<std::int64_t> sizes, strides;
    at::ScalarType type{};
  };
  struct Block {
    std::vector<std::optional<View>> views;  // none: it stays
    std::vector<at::Tensor> pieces;          // of its own copies
    std::vector<c10::Storage> arrived;       // on the device
    std::optional<c10::Event> done;          // the last copy in either direction
  };

  std::optional<View> view_of(const at::Tensor& tensor, std::size_t block, std::int64_t& bytes);
  std::size_t copy_of(const at::Tensor& tensor, std::size_t block, std::int64_t& bytes);
  void bring(Copy& copy, Block& to);

  ActivationOffload* where_;
  std::vector<Block> blocks_;
  std::vector<Copy> copies_;
  SavedActivations* leaving_ = nullptr;  // whose tensors are on their way
  std::size_t leaving_block_ = 0;
};

}  // namespace llmtrain
