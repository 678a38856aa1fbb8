// SPDX-License-Identifier: Apache-2.0
#include "kernels/moe/grouped_products.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_grouped_mm.h>
#include <ATen/ops/_scaled_grouped_mm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/segment_reduce.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstdint>

#include "core/base/error.h"
#include "kernels/accumulation_type.h"
#include "kernels/cuda_operators/moe/group_gradients.h"
#include "kernels/fp8/fp8.h"

namespace llmtrain::kernels {
namespace {

// The kernels copy blocks of operands by units of so many bytes, from addresses and over strides that are multiples.
constexpr std::int64_t copied_bytes = 16;

bool are_aligned(const at::Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.const_data_ptr()) % copied_bytes == 0 &&
         x.stride(0) * x.element_size() % copied_bytes == 0;
}

// Flat memory of weights has such addresses where all widths are multiples; what does not is copied.
at::Tensor aligned(const at::Tensor& x) { return are_aligned(x) ? x : x.clone(at::MemoryFormat::Contiguous); }

bool are_run_together(const at::Tensor& rows, const at::Tensor& weights) {
  return run_together(rows.scalar_type(), rows.device(), weights.size(2), weights.size(1));
}

at::Tensor rows_of(const at::Tensor& x, const ExpertRows& map, std::int64_t expert) {
  return x.narrow(0, map.offsets[static_cast<std::size_t>(expert)], map.rows_of(expert));
}

template <class Product>
void one_after_another(const ExpertRows& map, Product product) {
  if (!map.has_offsets())
    throw Error(ExitCode::internal_error, "the experts' products need to know on the host how many rows there are");
  for (std::int64_t expert = 0; expert < map.experts(); ++expert) product(expert);
}

// Rows [rows, K] times matrices [E, K, N].
at::Tensor product_of_rows(const at::Tensor& rows, const at::Tensor& matrices, const ExpertRows& map) {
  if (rows.size(0) == 0) return at::empty({0, matrices.size(2)}, rows.options());
  return at::_grouped_mm(aligned(rows), matrices, map.ends);
}

// Whether LibTorch has said that this machine's GPUs have no such kernel.
std::atomic<bool> lacks_scaled_products = false;

// The same of E4M3 numbers, with weights [E, N, K] and reciprocal scales; undefined where the GPU has no such kernel.
at::Tensor product_of_scaled_rows(const at::Tensor& rows, const at::Tensor& weights, const at::Tensor& rows_scales,
                                  const at::Tensor& weight_scales, const ExpertRows& map) {
  if (rows.size(0) == 0) return at::empty({0, weights.size(1)}, rows.options().dtype(at::kBFloat16));
  try {
    // Sums in full fp32, as those of widened operands are.
    return at::_scaled_grouped_mm(rows, weights.transpose(1, 2), rows_scales.flatten(),
                                  weight_scales.expand({-1, weights.size(1)}).contiguous(), map.ends, std::nullopt,
                                  std::nullopt, at::kBFloat16, false);
  } catch (const c10::NotImplementedError&) {
    lacks_scaled_products = true;
    return {};
  }
}

void add_biases(at::Tensor& y, const std::optional<at::Tensor>& biases, const ExpertRows& map) {
  if (biases) y.add_(biases->index_select(0, experts_of_rows(map)));
}

at::Tensor linear_together(const at::Tensor& x, const at::Tensor& weights, const std::optional<at::Tensor>& biases,
                           const ExpertRows& map) {
  at::Tensor y = product_of_rows(x, aligned(weights).transpose(1, 2), map);
  add_biases(y, biases, map);
  return y;
}

void store(const at::Tensor& destination, const at::Tensor& value, Accumulation accumulation) {
  if (accumulation == Accumulation::add) {
    destination.add_(value);
  } else {
    destination.copy_(value);
  }
}

}  // namespace

bool run_together(at::ScalarType type, const at::Device& device, std::int64_t inputs, std::int64_t outputs) {
  const std::int64_t unit = copied_bytes / static_cast<std::int64_t>(c10::elementSize(type));
  return !device.is_cpu() && type == at::kBFloat16 && inputs % unit == 0 && outputs % unit == 0;
}

at::Tensor grouped_linear(const at::Tensor& x, const at::Tensor& weights, const std::optional<at::Tensor>& biases,
                          const ExpertRows& map) {
  if (are_run_together(x, weights)) return linear_together(x, weights, biases, map);
  const at::Tensor y = at::empty({x.size(0), weights.size(1)}, x.options());
  grouped_linear_into(x, weights, biases, map, y);
  return y;
}

void grouped_linear_into(const at::Tensor& x, const at::Tensor& weights, const std::optional<at::Tensor>& biases,
                         const ExpertRows& map, const at::Tensor& y) {
  if (are_run_together(x, weights)) {
    y.copy_(linear_together(x, weights, biases, map));
    return;
  }
  one_after_another(map, [&](std::int64_t expert) {
    std::optional<at::Tensor> bias;
    if (biases) bias = (*biases)[expert];
    group_linear(rows_of(x, map, expert), weights[expert], bias, rows_of(y, map, expert));
  });
}

bool scaled_run_together(at::ScalarType type, const at::Device& device, std::int64_t inputs, std::int64_t outputs) {
  return run_together(type, device, inputs, outputs) && inputs % copied_bytes == 0 && outputs % copied_bytes == 0;
}

at::Tensor grouped_scaled_linear(const at::Tensor& x, const at::Tensor& scales, const at::Tensor& weights,
                                 const at::Tensor& weight_scales, const std::optional<at::Tensor>& biases,
                                 const ExpertRows& map) {
  at::Tensor y;
  if (!lacks_scaled_products)
    y = product_of_scaled_rows(x, weights, scales.reciprocal(), weight_scales.reciprocal(), map);
  if (!y.defined()) {
    const at::Tensor wide = widen_fp8(weights.flatten(1), weight_scales, at::kBFloat16).view(weights.sizes());
    return linear_together(widen_fp8(x, scales, at::kBFloat16), wide, biases, map);
  }
  add_biases(y, biases, map);
  return y;
}

at::Tensor grouped_backward_input(const at::Tensor& dy, const at::Tensor& weights, const ExpertRows& map) {
  if (are_run_together(dy, weights)) return product_of_rows(dy, aligned(weights), map);
  const at::Tensor dx = at::empty({dy.size(0), weights.size(2)}, dy.options());
  one_after_another(map, [&](std::int64_t expert) {
    group_backward_input(rows_of(dy, map, expert), weights[expert], rows_of(dx, map, expert), Accumulation::overwrite);
  });
  return dx;
}

void grouped_add_backward_input(const at::Tensor& dy, const at::Tensor& weights, const ExpertRows& map,
                                const at::Tensor& dx) {
  if (are_run_together(dy, weights)) {
    dx.add_(product_of_rows(dy, aligned(weights), map));
    return;
  }
  one_after_another(map, [&](std::int64_t expert) {
    group_backward_input(rows_of(dy, map, expert), weights[expert], rows_of(dx, map, expert), Accumulation::add);
  });
}

void grouped_backward_weight(const at::Tensor& dy, const at::Tensor& x, const ExpertRows& map,
                             const at::Tensor& dweights, Accumulation accumulation) {
  if (!are_run_together(dy, dweights)) {
    one_after_another(map, [&](std::int64_t expert) {
      group_backward_weight(rows_of(dy, map, expert), rows_of(x, map, expert), dweights[expert], accumulation);
    });
  } else if (dy.size(0) > 0) {
    const at::Tensor product = at::_grouped_mm(aligned(dy).t(), aligned(x), map.ends);
    cuda_store_group_gradients(product, map.ends, dweights, accumulation);
  } else if (accumulation == Accumulation::overwrite) {
    dweights.zero_();
  }
}

void grouped_backward_bias(const at::Tensor& dy, const ExpertRows& map, const at::Tensor& dbiases,
                           Accumulation accumulation) {
  if (dy.is_cpu()) {
    one_after_another(map, [&](std::int64_t expert) {
      at::Tensor dbias = dbiases[expert];
      linear_backward_bias(rows_of(dy, map, expert), dbias, accumulation);
    });
  } else if (dy.size(0) > 0) {
    // A thread for each column of each expert, which adds its rows in their order.
    const at::Tensor offsets = at::constant_pad_nd(map.ends, {1, 0}).to(at::kLong);
    const at::Tensor wide = dy.to(accumulation_type(dy)).contiguous();
    store(dbiases, at::segment_reduce(wide, "sum", {}, {}, offsets, 0, true, 0), accumulation);
  } else if (accumulation == Accumulation::overwrite) {
    dbiases.zero_();
  }
}

}  // namespace llmtrain::kernels
