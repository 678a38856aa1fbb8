// SPDX-License-Identifier: Apache-2.0
// Tensors as such: made, resized, viewed, and read by the host.
#include <ATen/EmptyTensor.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/StorageImpl.h>
#include <torch/library.h>

#include "tests/emulator/torch/allocators.h"
#include "tests/emulator/torch/device_guard.h"
#include "tests/emulator/torch/seen_tensor.h"

namespace emulated {
namespace {

constexpr c10::DispatchKeySet keys(c10::DispatchKey::CUDA);

// The allocator allocates on the current device.
class OnDevice {
 public:
  explicit OnDevice(std::optional<c10::Device> device)
      : before_(exchange_device(device && device->index() >= 0 ? device->index() : current_device())) {}
  ~OnDevice() { exchange_device(before_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_;
};

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                 std::optional<at::Device> device, std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!pinned.value_or(false), "Only dense CPU tensors can be pinned");
  const OnDevice guard(device);
  return at::detail::empty_generic(size, &device_allocator(), keys, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> type,
                         std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const OnDevice guard(device);
  return at::detail::empty_strided_generic(size, stride, &device_allocator(), keys, c10::dtype_or_default(type));
}

const at::Tensor& resize_(const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
  const OnDevice guard(self.device());
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(size);
  const std::size_t bytes = static_cast<std::size_t>(self.storage_offset() + self.numel()) * self.itemsize();
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (bytes > storage->nbytes()) {
    TORCH_CHECK(storage->nbytes() == 0, "resize_ of device memory that holds data is not emulated");
    storage->set_data_ptr_noswap(device_allocator().allocate(bytes));
    storage->set_nbytes(bytes);
  }
  return self;
}

at::Scalar local_scalar(const at::Tensor& self) {
  const int device = self.device().index();
  count(device, &Counters::item_reads);
  auto value = std::make_shared<at::Scalar>();
  on_stream("_local_scalar_dense", {self}, {},
            [value](const auto& inputs, const auto&) { *value = at::_local_scalar_dense(inputs[0]); });
  emulated::synchronize(current_stream(device), "item()");
  return *value;
}

void record_stream(at::Tensor& self, c10::Stream s) { record_use(self.storage().data(), unwrap(s)); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("resize_", resize_);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("view.dtype", at::native::view_dtype);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("_local_scalar_dense", local_scalar);
  m.impl("record_stream", record_stream);
}

}  // namespace emulated
