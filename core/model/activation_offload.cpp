// SPDX-License-Identifier: Apache-2.0
#include "core/model/activation_offload.h"

#include <ATen/ops/empty.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <utility>

#include "kernels/host_copy.h"

namespace llmtrain {
namespace {

// LibTorch's allocators align storages so.
constexpr std::int64_t alignment = 512;

std::int64_t aligned(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

// The bytes of a tensor's whole storage.
at::Tensor bytes_of(const at::Tensor& tensor) {
  const auto elements = static_cast<std::int64_t>(tensor.storage().nbytes() / tensor.itemsize());
  return tensor.as_strided({elements}, {1}, 0).view(at::kByte);
}

// The same of a storage that has no tensor.
at::Tensor bytes_of(c10::Storage storage, const at::Device& device) {
  const auto bytes = static_cast<std::int64_t>(storage.nbytes());
  const c10::DispatchKeySet keys(at::TensorOptions(at::kByte).device(device).computeDispatchKey());
  at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys, c10::scalarTypeToTypeMeta(at::kByte));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous({bytes});
  return tensor;
}

// f(part of the pieces, part of the bytes), for bytes that lie in the pieces, one after another, from `begin` on.
template <typename F>
void for_parts(const std::vector<at::Tensor>& pieces, std::int64_t begin, const at::Tensor& bytes, const F& f) {
  std::int64_t first = 0, done = 0;
  for (const at::Tensor& piece : pieces) {
    const std::int64_t from = std::max(begin + done, first);
    const std::int64_t count = std::min(bytes.numel() - done, first + piece.numel() - from);
    if (count > 0) {
      f(piece.narrow(0, from - first, count), bytes.narrow(0, done, count));
      done += count;
    }
    first += piece.numel();
  }
}

}  // namespace

ActivationOffload::ActivationOffload(const at::Device& device)
    : device_(device), incoming_(kernels::copy_stream(device)), outgoing_(kernels::copy_stream(device)) {}

std::vector<at::Tensor> ActivationOffload::take(std::int64_t bytes) {
  std::vector<at::Tensor> pieces;
  for (std::int64_t size = largest_piece; size >= smallest_piece; size /= 2)
    while (bytes >= size || (bytes > 0 && size == smallest_piece)) {
      std::vector<at::Tensor>& free = free_[size];
      if (free.empty()) {
        free.push_back(at::empty({size}, at::TensorOptions(at::kByte).pinned_memory(true)));
        bytes_ += size;
      }
      pieces.push_back(std::move(free.back()));
      free.pop_back();
      bytes -= size;
    }
  return pieces;
}

void ActivationOffload::give(std::vector<at::Tensor> pieces) {
  for (at::Tensor& piece : pieces) free_[piece.numel()].push_back(std::move(piece));
}

c10::Stream ActivationOffload::computing() const { return kernels::current_stream(device_); }

// What leaves must have been made. What arrives may get memory that computations still read, and what leaves pinned
// memory from which they wait for arrivals.
c10::Stream ActivationOffload::after_computing(const c10::Stream& stream) const {
  kernels::follow(stream, computing());
  return stream;
}

std::size_t OffloadedActivations::copy_of(const at::Tensor& tensor, std::size_t block, std::int64_t& bytes) {
  auto* const storage = tensor.storage().unsafeGetStorageImpl();
  const auto same = [&](const Copy& copy) { return copy.device.lock().get() == storage; };
  const auto known = std::ranges::find_if(copies_, same);
  if (known != copies_.end()) return static_cast<std::size_t>(known - copies_.begin());
  const auto size = static_cast<std::int64_t>(tensor.storage().nbytes());
  copies_.push_back({Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storage)), size, bytes, block});
  bytes += aligned(size);
  return copies_.size() - 1;
}

std::optional<OffloadedActivations::View> OffloadedActivations::view_of(const at::Tensor& tensor, std::size_t block,
                                                                        std::int64_t& bytes) {
  if (!tensor.defined() || tensor.device() != where_->device()) return std::nullopt;
  if (static_cast<std::int64_t>(tensor.storage().nbytes()) < ActivationOffload::smallest) return std::nullopt;
  return View{copy_of(tensor, block, bytes), tensor.storage_offset(), tensor.sizes().vec(), tensor.strides().vec(),
              tensor.scalar_type()};
}

void OffloadedActivations::leave(std::size_t block, SavedActivations* saved) {
  finish_leaving();
  if (saved == nullptr) return;
  Block& own = blocks_[block];
  std::int64_t bytes = 0;
  const std::size_t known = copies_.size();
  std::vector<at::Tensor> storages;
  saved->visit([&](at::Tensor& kept) {
    own.views.push_back(view_of(kept, block, bytes));
    if (known + storages.size() < copies_.size()) storages.push_back(bytes_of(kept));
  });
  own.pieces = where_->take(bytes);
  const c10::Stream stream = where_->leaving();
  const c10::StreamGuard guard(stream);
  for (std::size_t i = 0; i < storages.size(); ++i)
    for_parts(own.pieces, copies_[known + i].begin, storages[i],
              [](const at::Tensor& host, const at::Tensor& device) { host.copy_(device, true); });
  own.done.emplace(where_->device().type());
  own.done->record(stream);
  leaving_ = saved;
  leaving_block_ = block;
}

void OffloadedActivations::finish_leaving() {
  if (leaving_ == nullptr) return;
  Block& block = blocks_[leaving_block_];
  // Whoever gets the memory next writes to it after the copies.
  block.done->block(where_->computing());
  std::size_t i = 0;
  leaving_->visit([&](at::Tensor& kept) {
    if (block.views[i++]) kept.reset();
  });
  leaving_ = nullptr;
}

void OffloadedActivations::bring(Copy& copy, Block& to) {
  if (const auto storage = copy.device.lock()) {
    to.arrived.emplace_back(storage);
    return;
  }
  const at::Tensor bytes = at::empty({copy.bytes}, at::TensorOptions(at::kByte).device(where_->device()));
  to.arrived.push_back(bytes.storage());
  copy.device = Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(bytes.storage().unsafeGetStorageImpl()));
  const c10::Stream stream = where_->arriving();
  const c10::StreamGuard guard(stream);
  for_parts(blocks_[copy.block].pieces, copy.begin, bytes,
            [](const at::Tensor& host, const at::Tensor& device) { device.copy_(host, true); });
}

void OffloadedActivations::expect(std::size_t block) {
  Block& own = blocks_[block];
  std::vector<std::size_t> needed;
  for (const std::optional<View>& view : own.views)
    if (view && std::ranges::count(needed, view->copy) == 0) needed.push_back(view->copy);
  for (const std::size_t copy : needed) bring(copies_[copy], own);
  if (needed.empty()) return;
  const c10::Stream stream = where_->arriving();
  own.done.emplace(where_->device().type());
  own.done->record(stream);
}

void OffloadedActivations::arrive(std::size_t block, SavedActivations* saved) {
  if (saved == nullptr) return;
  Block& own = blocks_[block];
  if (own.done) own.done->block(where_->computing());
  std::size_t i = 0;
  saved->visit([&](at::Tensor& kept) {
    const std::optional<View>& view = own.views[i++];
    if (!view) return;
    const c10::Storage storage(copies_[view->copy].device.lock());
    kept = bytes_of(storage, where_->device()).view(view->type).as_strided(view->sizes, view->strides, view->offset);
  });
  own.arrived.clear();
  where_->give(std::move(own.pieces));
  own = {};
}

}  // namespace llmtrain
