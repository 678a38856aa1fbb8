// SPDX-License-Identifier: Apache-2.0
// Products on a GPU, emulated here with the contracts of CUDA's operators, against float64.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/mm.h>

#include <catch2/catch.hpp>
#include <cstdint>

#include "kernels/gemm.h"
#include "tests/emulator/torch/backend.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {
namespace {

const at::Device gpu{at::kCUDA, 0};
constexpr std::int64_t tokens = 33, input = 24, output = 40;

// For sums of at most 40 products of normal numbers.
double tolerance_of(at::ScalarType type) {
  if (type == at::kFloat) return 32 * fp32_rounding;
  return 2 * (type == at::kHalf ? fp16_rounding : bf16_rounding);
}

at::Tensor on_device(const at::Tensor& x) { return x.to(gpu); }
at::Tensor wide(const at::Tensor& x) { return x.to(at::kDouble); }

}  // namespace

TEST_CASE("a linear layer's products on a GPU equal float64's up to rounding") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const at::Tensor x = random_tensor({tokens, input}, type), weight = random_tensor({output, input}, type);
  const at::Tensor bias = random_tensor({output}, type), dy = random_tensor({tokens, output}, type);
  const at::Tensor y = kernels::linear(on_device(x), on_device(weight), on_device(bias));
  CHECK(largest_error(y.to(at::kCPU), at::mm(wide(x), wide(weight).t()) + wide(bias)) < tolerance_of(type));
  const at::Tensor dx = linear_backward_input(on_device(dy), on_device(weight));
  CHECK(largest_error(dx.to(at::kCPU), at::mm(wide(dy), wide(weight))) < tolerance_of(type));
}

TEST_CASE("weight gradients on a GPU are written and added where they are, without memory beside them") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const auto sum = GENERATE(at::kFloat, at::kBFloat16);
  if (sum != at::kFloat && sum != type) return;
  const at::Tensor x = random_tensor({tokens, input}, type), dy = random_tensor({tokens, output}, type);
  const at::Tensor product = at::mm(wide(dy).t(), wide(x));
  const at::Tensor device_x = on_device(x), device_dy = on_device(dy);
  for (const auto accumulation : {Accumulation::overwrite, Accumulation::add}) {
    const at::Tensor before = random_tensor({output, input}, sum);
    at::Tensor dweight = on_device(before);
    const emulated::Counters& counters = emulated::counters(0);
    const std::int64_t launches = counters.launches, allocations = counters.allocations;
    linear_backward_weight(device_dy, device_x, dweight, accumulation);
    CHECK(counters.launches - launches == 1);
    CHECK(counters.allocations == allocations);
    const at::Tensor want = accumulation == Accumulation::add ? product + wide(before) : product;
    CHECK(largest_error(dweight.to(at::kCPU), want) < tolerance_of(sum));
  }
}

TEST_CASE("a gradient is not read where it is overwritten") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const at::Tensor x = on_device(random_tensor({tokens, input}, type));
  const at::Tensor dy = on_device(random_tensor({tokens, output}, type));
  at::Tensor dweight = on_device(random_tensor({output, input}, at::kFloat).fill_(NAN));
  linear_backward_weight(dy, x, dweight, Accumulation::overwrite);
  CHECK_FALSE(dweight.to(at::kCPU).isnan().any().item<bool>());
}

TEST_CASE("cuBLAS adds the parts of a split product in fp32") {
  const at::Tensor x = on_device(random_tensor({tokens, input}, at::kBFloat16));
  kernels::linear(x, x, std::nullopt);
  using Option = at::CuBLASReductionOption;
  CHECK(at::globalContext().allowBF16ReductionCuBLAS() == Option::DisallowReducedPrecisionAllowSplitK);
  CHECK(at::globalContext().allowFP16ReductionCuBLAS() == Option::DisallowReducedPrecisionAllowSplitK);
}

TEST_CASE("gradients of biases on a GPU are two kernels, with a number beside per column and piece of rows") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const auto memory = GENERATE(at::kFloat, at::kBFloat16);
  const auto accumulation = GENERATE(Accumulation::overwrite, Accumulation::add);
  const at::Tensor dy = random_tensor({200, output}, type), before = random_tensor({output}, memory);
  at::Tensor dbias = on_device(before);
  const at::Tensor there = on_device(dy);
  const emulated::Counters& counters = emulated::counters(0);
  const std::int64_t launched = counters.launches, allocated = counters.allocations;
  linear_backward_bias(there, dbias, accumulation);
  CHECK(counters.launches - launched == 2);
  CHECK(counters.allocations - allocated == 1);
  const at::Tensor sum = wide(dy).sum(0), want = accumulation == Accumulation::add ? wide(before) + sum : sum;
  CHECK(largest_error(dbias.to(at::kCPU), want) < (memory == at::kFloat ? 32 * fp32_rounding : 2 * bf16_rounding));
  // No rows leave zeros.
  linear_backward_bias(there.narrow(0, 0, 0), dbias, Accumulation::overwrite);
  CHECK(dbias.to(at::kCPU).eq(0).all().item<bool>());
}

}  // namespace llmtrain::kernels
