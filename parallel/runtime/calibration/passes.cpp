// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/calibration/passes.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include "kernels/attention/attention.h"
#include "parallel/device/measurement.h"

namespace llmtrain {
namespace {

// More than caches hold.
std::int64_t large_elements(const c10::Device& device) {
  if (device.is_cpu()) return std::int64_t{1} << 23;
  const std::int64_t size = runtime_of(device).measuring_size();
  return 2 * size * size;
}

double pass_seconds(const Stopwatch& stopwatch, std::int64_t elements) {
  const at::Tensor left = random_operand({elements}, at::kFloat, stopwatch.device());
  const at::Tensor right = left.clone();
  at::Tensor sum = at::empty({elements}, left.options());
  return stopwatch.seconds_of([&] { at::add_out(sum, left, right); });
}

double copy_bandwidth(const Stopwatch& stopwatch, std::int64_t elements) {
  const at::Tensor from = random_operand({elements}, at::kFloat, stopwatch.device());
  const at::Tensor to = at::empty_like(from);
  return 8.0 * static_cast<double>(elements) / stopwatch.seconds_of([&] { to.copy_(from); });
}

}  // namespace

// Passes with two reads and one write at three sizes: the smallest gives the start-up time, the largest the bandwidth.
void measure_memory(const Stopwatch& stopwatch, ClusterProfile& profile) {
  const std::int64_t large = large_elements(stopwatch.device());
  const double start = pass_seconds(stopwatch, 1);
  const double medium_seconds = pass_seconds(stopwatch, large / 16);
  const double large_seconds = pass_seconds(stopwatch, large);
  const double bytes = 12.0 * static_cast<double>(large);
  // A copy has another ratio of reads and writes, which some devices do faster.
  profile.device.memory_bandwidth = std::max(bytes / large_seconds, copy_bandwidth(stopwatch, large));
  // A pass over one element measures the host's launch and the kernel's start-up together.
  profile.device.kernel_seconds = start;
  profile.host.operator_seconds = start;
  profile.host.tensor_seconds = 0;  // the optimizer updates flat memory, not single tensors
  profile.memory.fraction = 1;
  // Mid-sized passes on a CPU fit its caches and may be faster than the bandwidth predicts: half_bytes is then 0.
  const double rest = medium_seconds - bytes / 16 / profile.device.memory_bandwidth - start;
  profile.memory.half_bytes = std::max(0.0, rest) * profile.device.memory_bandwidth;
}

void measure_attention(const Stopwatch& stopwatch, ClusterProfile& profile) {
  const c10::Device& device = stopwatch.device();
  const std::int64_t batch = 4, length = stopwatch.scaled(256), heads = 12, width = 64;
  const at::ScalarType type = device.is_cpu() ? at::kFloat : at::kBFloat16;
  const at::Tensor query = random_operand({batch, length, heads, width}, type, device);
  const kernels::AttentionCall flash{};
  const auto saved = kernels::attention_forward(query, query, query, flash);
  const double forward = stopwatch.seconds_of([&] { kernels::attention_forward(query, query, query, flash); });
  const double backward =
      stopwatch.seconds_of([&] { kernels::attention_backward(saved.out, query, query, query, saved, flash); });
  // Causal attention skips half of the scores; the backward has 2.5 times the forward's FLOPs (Dao, arXiv 2307.08691).
  // The forward has two products, of a multiplication and an addition each.
  const double half_square = static_cast<double>(length * length) / 2;
  const double flops = 4 * half_square * static_cast<double>(batch * heads * width);
  const double peak = device.is_cpu() ? profile.device.peak_flops.fp32 : profile.device.peak_flops.bf16;
  profile.attention.forward_fraction = std::min(1.0, flops / forward / peak);
  profile.attention.backward_fraction = std::min(1.0, 2.5 * flops / backward / peak);
}

void measure_host_copies(const Stopwatch& stopwatch, ClusterProfile& profile) {
  const c10::Device& device = stopwatch.device();
  if (device.is_cpu()) return;
  const std::int64_t elements = large_elements(device) / 4;
  const at::Tensor there = random_operand({elements}, at::kFloat, device);
  const at::Tensor here = at::empty({elements}, at::TensorOptions(at::kFloat).pinned_memory(true));
  const double out = stopwatch.seconds_of([&] { here.copy_(there, true); });
  const double in = stopwatch.seconds_of([&] { there.copy_(here, true); });
  profile.device.pcie_bandwidth = 4.0 * static_cast<double>(elements) / std::max(out, in);
}

}  // namespace llmtrain
