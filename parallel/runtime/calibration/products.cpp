// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/calibration/products.h"

#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>

#include "core/base/log.h"
#include "kernels/gemm.h"
#include "parallel/device/measurement.h"
#include "parallel/plan/cost/roofline.h"

namespace llmtrain {
namespace {

constexpr std::int64_t cache_elements = std::int64_t{1} << 25;  // more than caches hold

struct Product {
  std::int64_t rows = 0, columns = 0, inner = 0;
  at::ScalarType type = at::kFloat;
  double rate = 0;  // FLOP/s
};

// One linear layer of a training step.
struct Layer {
  at::Tensor x, weight, dy, dweight;
};

Layer make_layer(const Product& product, const c10::Device& device) {
  return {random_operand({product.rows, product.inner}, product.type, device),
          random_operand({product.columns, product.inner}, product.type, device),
          random_operand({product.rows, product.columns}, product.type, device),
          at::zeros({product.columns, product.inner}, at::TensorOptions(at::kFloat).device(device))};
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
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const std::int64_t rows : stopwatch.thoroughness().rows) {
      for (const auto& [columns, inner] : stopwatch.thoroughness().layers) {
        Product product{stopwatch.scaled(rows), stopwatch.scaled(columns), stopwatch.scaled(inner), type};
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

// What training with precision.tf32 would reach; 0 on a CPU, which has no such mode.
double tf32_rate(const c10::Device& device) {
  if (device.is_cpu()) return 0;
  allow_tf32(true);
  const double rate = measure_matmul_rate(device, at::kFloat);
  allow_tf32(false);
  return rate;
}

// The rate of a large square product of FP8 with one scale per operand; 0 where the device has none.
double fp8_rate(const Stopwatch& stopwatch) {
  const c10::Device& device = stopwatch.device();
  if (device.is_cpu()) return 0;
  const std::int64_t size = runtime_of(device).measuring_size();
  const at::Tensor left = random_operand({size, size}, at::kFloat8_e4m3fn, device), right = left.clone();
  const at::Tensor scale = at::ones({}, at::TensorOptions(at::kFloat).device(device));
  try {
    // The second operand by columns: the units have no other layout.
    const double seconds = stopwatch.seconds_of(
        [&] { at::_scaled_mm(left, right.t(), scale, scale, std::nullopt, std::nullopt, at::kBFloat16, false); });
    return 2 * std::pow(static_cast<double>(size), 3) / seconds;
  } catch (const c10::Error& error) {
    log().info("the device multiplies no FP8: {}", error.what_without_backtrace());
    return 0;
  }
}

}  // namespace

void measure_matrix(const Stopwatch& stopwatch, ClusterProfile& profile) {
  const std::vector<Product> measured = measure_products(stopwatch);
  PeakFlops& peak = profile.device.peak_flops;
  peak.fp32 = fastest(measured, at::kFloat);
  peak.bf16 = fastest(measured, at::kBFloat16);
  // Not measured: assumed to run at the rate of fp32 on a CPU, of bf16 on a GPU.
  peak.fp16 = stopwatch.device().is_cpu() ? peak.fp32 : peak.bf16;
  profile.matrix = fit_curve(measured, peak);
  // The fitted asymptote may exceed every measured rate: raise the peaks so that no fraction is above 1.
  const double above = std::max(1.0, profile.matrix.peak_fraction);
  profile.matrix.peak_fraction /= above;
  for (double* rate : {&peak.fp32, &peak.bf16, &peak.fp16}) *rate *= above;
  // One large product each, which reaches what there is.
  peak.tf32 = tf32_rate(stopwatch.device());
  peak.fp8 = fp8_rate(stopwatch);
  profile.matrix.fp8_peak_fraction = peak.fp8 > 0 ? 1 : 0;
}

}  // namespace llmtrain
