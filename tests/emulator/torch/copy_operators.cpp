// SPDX-License-Identifier: Apache-2.0
// Copies between host and device, on a device and between devices.
#include <torch/library.h>

#include "tests/emulator/device/host_link.h"
#include "tests/emulator/torch/seen_tensor.h"

namespace emulated {
namespace {

std::int64_t copied_bytes(const at::Tensor& t) {
  return static_cast<std::int64_t>(t.numel()) * static_cast<std::int64_t>(t.itemsize());
}

// Begins the use of its device's link for the bytes of a tensor.
auto link_use(const at::Tensor& of_device, LinkWay way) {
  return [device = static_cast<int>(of_device.device().index()), way, bytes = copied_bytes(of_device)] {
    return LinkUse(device, way, bytes);
  };
}

// As on CUDA: on the source's stream, which waits for the destination's, and for which that one waits.
void copy_between_devices(const at::Tensor& to, const at::Tensor& from) {
  Stream* const here = current_stream(from.device().index());
  Stream* const there = current_stream(to.device().index());
  emulated::wait(here, emulated::record(there));
  enqueue(here, {"copy_ between devices",
                 {access_of(from, false), access_of(to, true)},
                 [to = SeenTensor(to), from = SeenTensor(from)] {
                   set_up_stream_thread();
                   to.on_host().copy_(from.on_host());
                 }});
  emulated::wait(there, emulated::record(here));
}

void copy_to_device(const at::Tensor& to, const at::Tensor& from, bool is_pinned) {
  // A graph would read it at every launch, when it is another's.
  if (!is_pinned && is_captured(current_stream(to.device().index())))
    throw Fault("a copy from pageable memory while a graph is captured");
  // Pageable memory is staged by the driver before the call returns.
  const at::Tensor staged = is_pinned ? at::Tensor() : uncounted_copy(from);
  enqueue(current_stream(to.device().index()),
          {"a copy to the device",
           {access_of(to, true), access_of(from, false)},
           [staged, use = link_use(to, LinkWay::to_device), to = SeenTensor(to), from = SeenTensor(from)] {
             set_up_stream_thread();
             const LinkUse link = use();
             to.on_host().copy_(staged.defined() ? staged : from.on_host());
           }});
}

void copy_to_host(const at::Tensor& to, const at::Tensor& from) {
  enqueue(current_stream(from.device().index()),
          {"a copy to the host",
           {access_of(from, false), access_of(to, true)},
           [use = link_use(from, LinkWay::to_host), to = SeenTensor(to), from = SeenTensor(from)] {
             set_up_stream_thread();
             const LinkUse link = use();
             to.on_host().copy_(from.on_host());
           }});
}

void copy_with_host(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  const bool to_device = is_on_device(to);
  const int device = (to_device ? to : from).device().index();
  const bool pinned = is_pinned((to_device ? from : to).data_ptr());
  if (!pinned) count(device, &Counters::pageable_copies);
  count(device, to_device ? &Counters::bytes_to_device : &Counters::bytes_to_host, copied_bytes(to));
  if (to_device)
    copy_to_device(to, from, pinned);
  else
    copy_to_host(to, from);
  const bool is_staged_back = !to_device && !pinned;
  if (!non_blocking || is_staged_back)
    emulated::synchronize(current_stream(device),
                          to_device ? "a blocking copy to the device" : "a blocking copy to the host");
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  const at::Tensor from = source.expand_as(self);
  if (self.numel() == 0) return self;
  if (!is_on_device(self) || !is_on_device(from))
    copy_with_host(self, from, non_blocking);
  else if (self.device() != from.device())
    copy_between_devices(self, from);
  else
    on_stream("copy_", {from}, {self}, [](const auto& in, const auto& out) { out[0].copy_(in[0]); });
  return self;
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& destination, bool non_blocking) {
  at::Tensor to = destination;
  return copy_(to, source, non_blocking);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("copy_", copy_);
  m.impl("_copy_from", copy_from);
}

}  // namespace emulated
