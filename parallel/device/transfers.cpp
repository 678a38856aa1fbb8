// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/transfers.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <cstddef>
#include <utility>

#include "kernels/host_copy.h"

namespace llmtrain {
namespace {

// So that each tensor of a packed copy is aligned as one with memory of its own.
constexpr std::int64_t alignment = 64;  // bytes

}  // namespace

PackedTensors::PackedTensors(std::span<const at::Tensor> tensors) {
  if (tensors.empty()) return;
  std::int64_t end = 0;
  for (const at::Tensor& tensor : tensors) {
    const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
    places_.push_back({end, bytes, tensor.scalar_type(), tensor.sizes().vec()});
    end += (bytes + alignment - 1) / alignment * alignment;
  }
  packed_ = at::empty({end}, at::TensorOptions(at::kByte).pinned_memory(true));
  for (std::size_t i = 0; i < tensors.size(); ++i) places_[i].in(packed_).copy_(tensors[i]);
}

std::vector<at::Tensor> PackedTensors::send(const at::Device& device) const {
  std::vector<at::Tensor> results;
  if (places_.empty()) return results;
  const at::Tensor there = at::empty(packed_.sizes(), packed_.options().device(device).pinned_memory(false));
  there.copy_(packed_, true);
  for (const Place& place : places_) results.push_back(place.in(there));
  return results;
}

std::vector<at::Tensor> to_device(std::span<const at::Tensor> tensors, const at::Device& device) {
  if (device.is_cpu()) return {tensors.begin(), tensors.end()};
  return PackedTensors(tensors).send(device);
}

std::vector<double> read_numbers(std::span<const at::Tensor> tensors) {
  std::vector<at::Tensor> distant;
  for (const at::Tensor& tensor : tensors)
    if (!tensor.is_cpu()) distant.push_back(tensor.to(at::kDouble).reshape({-1}));
  at::Tensor arrived;
  if (!distant.empty()) arrived = kernels::to_host(distant.size() == 1 ? distant.front() : at::cat(distant));
  std::vector<double> numbers;
  std::int64_t next = 0;
  for (const at::Tensor& tensor : tensors) {
    const std::int64_t count = tensor.numel();
    const at::Tensor here =
        tensor.is_cpu() ? tensor.to(at::kDouble).reshape({-1}).contiguous() : arrived.narrow(0, next, count);
    if (!tensor.is_cpu()) next += count;
    const auto* values = here.const_data_ptr<double>();
    numbers.insert(numbers.end(), values, values + count);
  }
  return numbers;
}

at::Tensor read_floats(const at::Tensor& tensor) {
  return tensor.defined() ? kernels::to_host(tensor.to(at::kFloat).contiguous()) : tensor;
}

void RoundAhead::end_round() {
  if (device_.is_cpu()) return;
  c10::Event end(device_.type());
  end.record(kernels::current_stream(device_));
  if (last_) last_->synchronize();
  last_.emplace(std::move(end));
}

}  // namespace llmtrain
