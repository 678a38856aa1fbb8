// SPDX-License-Identifier: Apache-2.0
// Norms, activation functions, rotations and the gradients of embeddings on a GPU, emulated here with the contracts of
// CUDA's operators, against float64.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randint.h>

#include <catch2/catch.hpp>
#include <cstdint>

#include "kernels/activation.h"
#include "kernels/embedding.h"
#include "kernels/joined_heads.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "tests/emulator/torch/backend.h"
#include "tests/kernels/norm_case.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {
namespace {

const at::Device gpu{at::kCUDA, 0};

NormCase on_device(const NormCase& c) {
  NormCase moved = c;
  moved.x = moved.x.to(gpu);
  moved.dy = moved.dy.to(gpu);
  moved.parameters.weight = moved.parameters.weight.to(gpu);
  if (moved.parameters.bias) moved.parameters.bias = moved.parameters.bias->to(gpu);
  return moved;
}

NormGradients moved(const NormGradients& d, const at::Device& device) {
  return {d.dx.to(device), d.dweight.to(device), d.dbias.to(device)};
}

double rounding_of(at::ScalarType type) {
  if (type == at::kFloat) return fp32_rounding;
  return type == at::kHalf ? fp16_rounding : bf16_rounding;
}

std::int64_t launches() { return emulated::counters(0).launches; }

}  // namespace

TEST_CASE("norms on a GPU are one kernel, which recompute repeats bitwise") {
  const auto mode = GENERATE(NormMode::layer, NormMode::root_mean_square);
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const NormCase host = make_norm_case(33, 48, mode, type), device = on_device(host);
  const std::int64_t before = launches();
  const NormOutput output = norm_forward(device.x, device.parameters);
  CHECK(launches() - before == 1);
  CHECK(output.rstd.sizes() == at::IntArrayRef{33});
  CHECK(output.rstd.scalar_type() == at::kFloat);
  CHECK(output.mean.defined() == (mode == NormMode::layer));
  CHECK(largest_error(output.y.to(at::kCPU), exact_norm(host)) < std::max(fp32_tolerance, 2 * rounding_of(type)));
  const at::Tensor again = norm_recompute(device.x, output.mean, output.rstd, device.parameters);
  CHECK(at::equal(again.to(at::kCPU), output.y.to(at::kCPU)));
}

TEST_CASE("a residual connection and its norm on a GPU are one kernel, which rounds the sum once") {
  const auto mode = GENERATE(NormMode::layer, NormMode::root_mean_square);
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const NormCase host = make_norm_case(9, 40, mode, type), device = on_device(host);
  const at::Tensor sum = host.dy + host.x;
  at::Tensor residual = device.dy;
  const std::int64_t before = launches();
  const NormOutput output = add_norm_forward(residual, device.x, device.parameters);
  CHECK(launches() - before == 1);
  CHECK(at::equal(residual.to(at::kCPU), sum));
  NormCase of_sum = host;
  of_sum.x = sum;
  CHECK(largest_error(output.y.to(at::kCPU), exact_norm(of_sum)) < std::max(fp32_tolerance, 2 * rounding_of(type)));
}

TEST_CASE("gradients of norms on a GPU are made by two kernels, and those of parameters in fp32") {
  const auto accumulation = GENERATE(Accumulation::overwrite, Accumulation::add);
  const auto mode = GENERATE(NormMode::layer, NormMode::root_mean_square);
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const NormCase host = make_norm_case(33, 48, mode, type);
  const NormGradients before = random_gradients(host, at::kFloat);
  const NormCase device = on_device(host);
  const NormOutput saved = norm_forward(device.x, device.parameters);
  NormGradients on_gpu = moved(before, gpu);
  std::optional<at::Tensor> dbias;
  if (mode == NormMode::layer) dbias = on_gpu.dbias;
  const std::int64_t launched = launches();
  norm_backward(device.dy, device.x, saved.mean, saved.rstd, device.parameters, on_gpu.dx, on_gpu.dweight, dbias,
                accumulation);
  CHECK(launches() - launched == 2);
  const NormGradients got = moved(on_gpu, at::kCPU);
  NormGradients sums = in_float64(before);
  if (accumulation == Accumulation::overwrite) {
    sums.dweight.zero_();
    sums.dbias.zero_();
  }
  const NormGradients want = accumulated(in_float64(host), sums);
  // dx is rounded as a gradient and again as a sum.
  CHECK(largest_error(got.dx, want.dx) < std::max(fp32_tolerance, 4 * rounding_of(type)));
  CHECK(largest_error(got.dweight, want.dweight) < fp32_tolerance);
  if (mode == NormMode::layer) CHECK(largest_error(got.dbias, want.dbias) < fp32_tolerance);
}

TEST_CASE("activation functions on a GPU equal the CPU's up to rounding; each is one kernel with no memory beside") {
  const auto kind = GENERATE(ActivationKind::gelu, ActivationKind::gelu_tanh, ActivationKind::swiglu);
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const std::int64_t width = 24, columns = kind == ActivationKind::swiglu ? 2 * width : width;
  const at::Tensor x = random_tensor({9, columns}, type), dy = random_tensor({9, width}, type);
  const at::Tensor x64 = x.to(at::kDouble), dy64 = dy.to(at::kDouble);
  // Products of values that were rounded themselves.
  const double tolerance = 8 * rounding_of(type);
  const at::Tensor device_x = x.to(gpu), device_dy = dy.to(gpu);
  const std::int64_t launched = launches(), allocations = emulated::counters(0).allocations;
  const at::Tensor y = activation_forward(device_x, kind);
  const at::Tensor dx = activation_backward(device_dy, device_x, kind);
  CHECK(launches() - launched == 2);
  CHECK(emulated::counters(0).allocations - allocations == 2);
  CHECK(largest_error(y.to(at::kCPU), activation_forward(x64, kind)) < tolerance);
  CHECK(largest_error(dx.to(at::kCPU), activation_backward(dy64, x64, kind)) < tolerance);
}

TEST_CASE("swiglu of gate and up that lie apart is one kernel each way on a GPU, bitwise that of both side by side") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const std::int64_t rows = GENERATE(1, 9), width = GENERATE(24, 7);
  const at::Tensor x = random_tensor({rows, 2 * width}, type), dy = random_tensor({rows, width}, type);
  const at::Tensor gate = x.narrow(1, 0, width).contiguous(), up = x.narrow(1, width, width).contiguous();
  const GateAndUp apart{gate.to(gpu), up.to(gpu)};
  const at::Tensor device_x = x.to(gpu), device_dy = dy.to(gpu);
  const std::int64_t launched = launches(), allocations = emulated::counters(0).allocations;
  const at::Tensor y = gated_forward(apart, ActivationKind::swiglu);
  const auto [dgate, dup] = gated_backward(device_dy, apart, ActivationKind::swiglu);
  CHECK(launches() - launched == 2);
  CHECK(emulated::counters(0).allocations - allocations == 3);
  CHECK(at::equal(y.to(at::kCPU), activation_forward(device_x, ActivationKind::swiglu).to(at::kCPU)));
  const at::Tensor dx = activation_backward(device_dy, device_x, ActivationKind::swiglu).to(at::kCPU);
  CHECK(at::equal(dgate.to(at::kCPU), dx.narrow(1, 0, width)));
  CHECK(at::equal(dup.to(at::kCPU), dx.narrow(1, width, width)));
  // A processor joins them.
  CHECK(at::equal(gated_forward({gate, up}, ActivationKind::swiglu), activation_forward(x, ActivationKind::swiglu)));
  const auto [dgate_here, dup_here] = gated_backward(dy, {gate, up}, ActivationKind::swiglu);
  const at::Tensor dx_here = activation_backward(dy, x, ActivationKind::swiglu);
  CHECK(at::equal(dgate_here, dx_here.narrow(1, 0, width)));
  CHECK(at::equal(dup_here, dx_here.narrow(1, width, width)));
}

TEST_CASE("the gradient of a bias before a gelu on a GPU is made with the gelu's, bitwise as in another pass") {
  const auto kind = GENERATE(ActivationKind::gelu, ActivationKind::gelu_tanh);
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const auto accumulation = GENERATE(Accumulation::overwrite, Accumulation::add);
  const at::Tensor x = random_tensor({300, 24}, type).to(gpu), dy = random_tensor({300, 24}, type).to(gpu);
  at::Tensor together = random_tensor({24}, at::kFloat).to(gpu), apart = together.clone();
  const std::int64_t launched = launches(), allocations = emulated::counters(0).allocations;
  const at::Tensor dx = activation_bias_backward(dy, x, kind, together, accumulation);
  CHECK(launches() - launched == 2);
  CHECK(emulated::counters(0).allocations - allocations == 2);
  const at::Tensor other = activation_backward(dy, x, kind);
  linear_backward_bias(other, apart, accumulation);
  CHECK(at::equal(dx.to(at::kCPU), other.to(at::kCPU)));
  CHECK(at::equal(together.to(at::kCPU), apart.to(at::kCPU)));
}

TEST_CASE(
    "rotations on a GPU are one kernel with no memory beside, and "
    "float64's up to one rounding, also of slices") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const auto direction = GENERATE(RopeDirection::forward, RopeDirection::backward);
  // Positions of whole sequences, of one that ends earlier, and one row per token.
  const auto sequence = GENERATE(std::int64_t{6}, std::int64_t{5}, std::int64_t{12});
  const at::Tensor wide_matrix = random_tensor({12, 4, 8}, type);
  const RopeTable table = make_rope_table(12, 8, 10000, at::kCPU);
  at::Tensor want = wide_matrix.narrow(1, 1, 2).to(at::kDouble);
  rope_(want, table, sequence, direction);
  const at::Tensor device = wide_matrix.to(gpu);
  at::Tensor slice = device.narrow(1, 1, 2);
  const RopeTable angles{table.cosine.to(gpu), table.sine.to(gpu)};
  const std::int64_t launched = launches(), allocations = emulated::counters(0).allocations;
  rope_(slice, angles, sequence, direction);
  CHECK(launches() - launched == 1);
  CHECK(emulated::counters(0).allocations == allocations);
  CHECK(largest_error(slice.to(at::kCPU), want) < 2 * rounding_of(type));
  CHECK(at::equal(device.to(at::kCPU).narrow(1, 3, 1), wide_matrix.narrow(1, 3, 1)));
}

TEST_CASE("gradients of embeddings on a GPU are those of a CPU bitwise, and nothing waits for the device") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const bool has_positions = GENERATE(true, false);
  const at::Tensor dy = random_tensor({21, 24}, type);
  const at::Tensor tokens = at::randint(9, {21}, test_generator(), at::kLong);
  at::Tensor table = random_tensor({9, 24}, at::kFloat), on_gpu = table.to(gpu);
  std::optional<at::Tensor> positions, positions_on_gpu;
  if (has_positions) positions = random_tensor({8, 24}, at::kFloat), positions_on_gpu = positions->to(gpu);
  const at::Tensor device_dy = dy.to(gpu), device_tokens = tokens.to(gpu);
  {
    const emulated::NoSynchronisation none;
    embedding_backward(device_dy, device_tokens, on_gpu, positions_on_gpu, 7);
  }
  embedding_backward(dy, tokens, table, positions, 7);
  CHECK(at::equal(on_gpu.to(at::kCPU), table));
  if (has_positions) CHECK(at::equal(positions_on_gpu->to(at::kCPU), *positions));
}

TEST_CASE("gradients of heads are joined and rotated on a GPU by one kernel, with the CPU's numbers") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const bool has_table = GENERATE(true, false);
  const HeadGradients host{random_tensor({2, 5, 4, 16}, type), random_tensor({2, 5, 2, 16}, type),
                           random_tensor({2, 5, 2, 16}, type)};
  const HeadGradients device{host.query.to(gpu), host.key.to(gpu), host.value.to(gpu)};
  const RopeTable table = make_rope_table(5, 16, 100, at::kCPU);
  const RopeTable moved_table{table.cosine.to(gpu), table.sine.to(gpu)};
  const at::Tensor expected = at::empty({2, 5, 8, 16}, host.query.options()),
                   got = at::empty_like(expected, at::TensorOptions(gpu));
  join_heads(host, has_table ? &table : nullptr, 5, expected);
  const std::int64_t before = launches();
  join_heads(device, has_table ? &moved_table : nullptr, 5, got);
  CHECK(launches() - before == 1);
  // Each of its own order of two products and a sum.
  CHECK(largest_error(got.to(at::kCPU), expected.to(at::kDouble)) < 2 * rounding_of(type));
}

}  // namespace llmtrain::kernels
