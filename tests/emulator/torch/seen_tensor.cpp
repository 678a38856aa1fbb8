// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/torch/seen_tensor.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>

namespace emulated {

SeenTensor::SeenTensor(const at::Tensor& t)
    : data_(t.numel() == 0 ? nullptr : t.data_ptr()),
      sizes_(t.sizes().vec()),
      strides_(t.strides().vec()),
      type_(t.scalar_type()) {}

at::Tensor SeenTensor::on_host() const {
  if (data_ == nullptr) return at::empty_strided(sizes_, strides_, type_);
  return at::from_blob(reachable(data_), sizes_, strides_, at::TensorOptions(type_));
}

Access SeenTensor::access(bool is_write) const {
  if (data_ == nullptr) return {nullptr, 0, is_write};
  std::int64_t last = 1;
  for (std::size_t i = 0; i < sizes_.size(); ++i) last += (sizes_[i] - 1) * strides_[i];
  return {data_, static_cast<std::size_t>(last) * c10::elementSize(type_), is_write};
}

at::Tensor uncounted_copy(const at::Tensor& t) {
  const auto free_memory = [](void* memory) { delete[] static_cast<char*>(memory); };
  auto* const memory = new char[std::max<std::size_t>(1, t.nbytes())];
  return at::from_blob(memory, t.sizes(), free_memory, at::TensorOptions(t.scalar_type())).copy_(t);
}

void set_up_stream_thread() {
  thread_local const bool is_set_up = [] {
    at::set_num_threads(1);  // per thread; more would take the processors from the other streams
    return true;
  }();
  (void)is_set_up;
}

void on_stream(const std::string& name, const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs,
               HostFunction function) {
  std::vector<Access> accesses;
  std::vector<SeenTensor> in, out;
  for (const at::Tensor& t : inputs) accesses.push_back(in.emplace_back(t).access(false));
  for (const at::Tensor& t : outputs) accesses.push_back(out.emplace_back(t).access(true));
  const c10::Device device = (outputs.empty() ? inputs : outputs).front().device();
  count("operators", name + " (by hand)");
  enqueue(current_stream(device.index()), {name, std::move(accesses), [in, out, function = std::move(function)] {
                                             set_up_stream_thread();
                                             const at::AutoDispatchBelowADInplaceOrView below;
                                             std::vector<at::Tensor> from, to;
                                             for (const SeenTensor& t : in) from.push_back(t.on_host());
                                             for (const SeenTensor& t : out) to.push_back(t.on_host());
                                             function(from, to);
                                           }});
}

}  // namespace emulated
