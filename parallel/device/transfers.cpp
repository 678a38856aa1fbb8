// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/transfers.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/accumulate.h>

#include <cstddef>
#include <utility>

#include "kernels/host_copy.h"

namespace llmtrain {
namespace {

// So that each tensor of a packed copy is aligned as one with memory of its own.
constexpr std::int64_t alignment = 64;  // bytes

at::Tensor pinned(std::int64_t elements, at::ScalarType type) {
  return at::empty({elements}, at::TensorOptions(type).pinned_memory(true));
}

}  // namespace

PackedTensors::PackedTensors(std::span<const at::Tensor> tensors) {
  if (tensors.empty()) return;
  const auto unit = alignment / static_cast<std::int64_t>(tensors.front().element_size());
  std::int64_t end = 0;
  for (const at::Tensor& tensor : tensors) {
    places_.push_back({end, tensor.sizes().vec()});
    end += (tensor.numel() + unit - 1) / unit * unit;
  }
  packed_ = pinned(end, tensors.front().scalar_type());
  for (std::size_t i = 0; i < tensors.size(); ++i)
    packed_.narrow(0, places_[i].begin, tensors[i].numel()).view(tensors[i].sizes()).copy_(tensors[i]);
}

std::vector<at::Tensor> PackedTensors::send(const at::Device& device) const {
  std::vector<at::Tensor> results;
  if (places_.empty()) return results;
  const at::Tensor there = at::empty(packed_.sizes(), at::TensorOptions(packed_.scalar_type()).device(device));
  there.copy_(packed_, true);
  for (const auto& [begin, shape] : places_)
    results.push_back(there.narrow(0, begin, c10::multiply_integers(shape)).view(shape));
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

void RoundAhead::end_round() {
  if (device_.is_cpu()) return;
  c10::Event end(device_.type());
  end.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
  if (last_) last_->synchronize();
  last_.emplace(std::move(end));
}

}  // namespace llmtrain
