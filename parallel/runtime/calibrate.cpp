// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/calibrate.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/machine/host_memory.h"
#include "kernels/attention/attention.h"
#include "kernels/gemm.h"
#include "parallel/device/device.h"
#include "parallel/plan/cost/roofline.h"

namespace llmtrain {
namespace {

constexpr std::int64_t cache_elements = std::int64_t{1} << 25;  // more than caches hold

// How long to measure, and what.
struct Thoroughness {
  double shortest_timing = 0;  // seconds: shorter timings are dominated by clock and scheduler noise
  std::size_t timings = 0;     // their median counts
  // Tokens of micro-batches, and [columns, inner] of a transformer's layers. A GPU takes eight times these sizes, since
  // it needs larger products to be busy.
  std::vector<std::int64_t> rows;
  std::vector<std::pair<std::int64_t, std::int64_t>> layers;
};

Thoroughness thoroughness_of(Effort effort) {
  if (effort == Effort::quick) return {0.004, 3, {128, 1024}, {{256, 256}, {1024, 256}, {768, 768}, {768, 3072}}};
  return {0.01, 5, {64, 256, 1024, 2048}, {{256, 256}, {1024, 256}, {256, 1024}, {768, 768}, {3072, 768}, {768, 3072}}};
}

struct Product {
  std::int64_t rows = 0, columns = 0, inner = 0;
  at::ScalarType type = at::kFloat;
  double rate = 0;  // FLOP/s
};

class Stopwatch {
 public:
  Stopwatch(const c10::Device& device, Thoroughness thoroughness)
      : device_(device), thoroughness_(std::move(thoroughness)) {}

  const c10::Device& device() const { return device_; }
  const Thoroughness& thoroughness() const { return thoroughness_; }

  // The median time of one call. Repeats double until a timing is long enough; too short ones also serve as warm-up.
  template <class Call>
  double seconds_of(Call call) const {
    std::vector<double> samples;
    std::int64_t repeats = 1;
    while (samples.size() < thoroughness_.timings) {
      synchronize(device_);
      const auto start = std::chrono::steady_clock::now();
      for (std::int64_t i = 0; i < repeats; ++i) call();
      synchronize(device_);
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      if (elapsed.count() < thoroughness_.shortest_timing) {
        repeats *= 2;
        continue;
      }
      samples.push_back(elapsed.count() / static_cast<double>(repeats));
    }
    const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
    std::ranges::nth_element(samples, middle);
    return *middle;
  }

 private:
  c10::Device device_;
  Thoroughness thoroughness_;
};

// One linear layer of a training step.
struct Layer {
  at::Tensor x, weight, dy, dweight;
};

Layer make_layer(const Product& product, const c10::Device& device) {
  const auto options = at::TensorOptions().dtype(product.type).device(device);
  return {at::ones({product.rows, product.inner}, options), at::ones({product.columns, product.inner}, options),
          at::ones({product.rows, product.columns}, options),
          at::ones({product.columns, product.inner}, options.dtype(at::kFloat))};
}

// Forward and both backward products, over so many layers that none finds its operands in a cache, as in training.
double product_rate(const Product& product, const Stopwatch& stopwatch) {
  const std::int64_t elements = product.rows * product.inner + product.columns * (product.inner + product.rows);
  const auto layers = static_cast<std::size_t>(std::clamp<std::int64_t>(cache_elements / elements, 2, 64));
  std::vector<Layer> model;
  for (std::size_t i = 0; i < layers; ++i) model.push_back(make_layer(product, stopwatch.device()));
  std::size_t next = 0;
  const double seconds = stopwatch.seconds_of([&] {
    Layer& layer = model[next++ % layers];
    kernels::linear(layer.x, layer.weight, std::nullopt);
    kernels::linear_backward_input(layer.dy, layer.weight);
    kernels::linear_backward_weight(layer.dy, layer.x, layer.dweight, kernels::Accumulation::overwrite);
  });
  // Three products of as many multiplications and additions.
  return 6.0 * static_cast<double>(product.rows) * static_cast<double>(product.columns) *
         static_cast<double>(product.inner) / seconds;
}

std::vector<Product> measure_products(const Stopwatch& stopwatch) {
  std::vector<Product> measured;
  const std::int64_t scale = stopwatch.device().is_cpu() ? 1 : 8;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t rows : stopwatch.thoroughness().rows) {
      for (const auto& [columns, inner] : stopwatch.thoroughness().layers) {
        Product product{rows * scale, columns * scale, inner * scale, type};
        product.rate = product_rate(product, stopwatch);
        measured.push_back(product);
      }
    }
  }
  return measured;
}

double fastest(const std::vector<Product>& measured, at::ScalarType type) {
  double rate = 0;
  for (const Product& product : measured)
    if (product.type == type) rate = std::max(rate, product.rate);
  return rate;
}

// The efficiency of a layer's three products together: the harmonic mean, because their times add up.
double layer_efficiency(const Product& product, const MatrixProfile& curve) {
  const auto rows = static_cast<double>(product.rows), columns = static_cast<double>(product.columns);
  const auto inner = static_cast<double>(product.inner);
  return 3 /
         (1 / shape_efficiency(curve, {rows, columns, inner}) + 1 / shape_efficiency(curve, {rows, inner, columns}) +
          1 / shape_efficiency(curve, {columns, inner, rows}));
}

// Least squares of the logarithms, so that relative errors count equally: both halves from a grid, the fraction in
// closed form.
MatrixProfile fit_curve(const std::vector<Product>& measured, const PeakFlops& peak) {
  constexpr std::array<double, 11> halves{0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  MatrixProfile best;
  double least = 1e30;
  for (const double inner_half : halves) {
    for (const double outer_half : halves) {
      const MatrixProfile curve{1, inner_half, outer_half, 0};
      double sum = 0, squares = 0;
      for (const Product& product : measured) {
        const double top = product.type == at::kFloat ? peak.fp32 : peak.bf16;
        const double error = std::log(product.rate / top / layer_efficiency(product, curve));
        sum += error;
        squares += error * error;
      }
      const double mean = sum / static_cast<double>(measured.size());
      const double spread = squares - sum * mean;
      if (spread >= least) continue;
      least = spread;
      best = {std::exp(mean), inner_half, outer_half, 0};
    }
  }
  return best;
}

void measure_matrix(const Stopwatch& stopwatch, ClusterProfile& profile) {
  const std::vector<Product> measured = measure_products(stopwatch);
  PeakFlops& peak = profile.device.peak_flops;
  peak.fp32 = fastest(measured, at::kFloat);
  peak.bf16 = fastest(measured, at::kBFloat16);
  // Not measured: assumed to run at the rate of fp32 on a CPU, of bf16 on a GPU.
  peak.fp16 = stopwatch.device().is_cpu() ? peak.fp32 : peak.bf16;
  peak.tf32 = 0;
  peak.fp8 = 0;
  profile.matrix = fit_curve(measured, peak);
  // The fitted asymptote may exceed every measured rate: raise the peaks so that no fraction is above 1.
  const double above = std::max(1.0, profile.matrix.peak_fraction);
  profile.matrix.peak_fraction /= above;
  for (double* rate : {&peak.fp32, &peak.bf16, &peak.fp16}) *rate *= above;
}

double pass_seconds(const Stopwatch& stopwatch, std::int64_t elements) {
  const at::Tensor left = at::ones({elements}, at::TensorOptions().dtype(at::kFloat).device(stopwatch.device()));
  const at::Tensor right = left.clone();
  at::Tensor sum = at::empty({elements}, left.options());
  return stopwatch.seconds_of([&] { at::add_out(sum, left, right); });
}

// Passes with two reads and one write at three sizes: the smallest gives the start-up time, the largest the bandwidth.
void measure_memory(const Stopwatch& stopwatch, ClusterProfile& profile) {
  const std::int64_t large = stopwatch.device().is_cpu() ? std::int64_t{1} << 23 : std::int64_t{1} << 27;
  const double start = pass_seconds(stopwatch, 1);
  const double medium_seconds = pass_seconds(stopwatch, large / 16);
  const double large_seconds = pass_seconds(stopwatch, large);
  const double bytes = 12.0 * static_cast<double>(large);
  profile.device.memory_bandwidth = bytes / large_seconds;
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
  const std::int64_t batch = 4, length = device.is_cpu() ? 256 : 2048, heads = 12, width = 64;
  const auto options = at::TensorOptions().dtype(device.is_cpu() ? at::kFloat : at::kBFloat16).device(device);
  const at::Tensor query = at::ones({batch, length, heads, width}, options);
  const kernels::AttentionSetting flash{};
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

}  // namespace

ClusterProfile calibrate(DeviceKind kind, const ClusterProfile& base, Effort effort) {
  const c10::Device device = choose_device(kind);
  const Stopwatch stopwatch(device, thoroughness_of(effort));
  ClusterProfile profile = base;
  profile.name = "this-machine";
  profile.description =
      (effort == Effort::quick ? "Measured in two seconds on " : "Measured by llmtrain calibrate on ") +
      describe_device(device);
  profile.device.kind = device.is_cpu() ? DeviceKind::cpu : DeviceKind::cuda;
  measure_matrix(stopwatch, profile);
  measure_memory(stopwatch, profile);
  measure_attention(stopwatch, profile);
  profile.sources["device"] = profile.sources["matrix"] = profile.sources["memory"] = "measured";
  profile.sources["attention"] = profile.sources["host"] = "measured";
  if (device.is_cpu()) {
    profile.device.memory_bytes = static_cast<double>(host_memory().total);
    profile.node.devices = 1;
    // An assumption, as sources["node"] states: a transfer between processes copies through shared memory.
    profile.node.link_bandwidth = profile.device.memory_bandwidth / 4;
    profile.sources["node"] = "ranks of one machine: a quarter of the memory bandwidth";
  }
  return profile;
}

}  // namespace llmtrain
