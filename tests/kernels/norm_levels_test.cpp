// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>

#include "kernels/vector/norm.h"
#include "kernels/vector_dispatch.h"
#include "tests/kernels/norm_case.h"
#include "tests/kernels/tensor_error.h"
#include "tests/kernels/vector_levels.h"

namespace llmtrain::kernels {
namespace {

constexpr std::int64_t rows = 45;
constexpr std::int64_t width = 101;
constexpr std::int64_t blocks = 2;

template <class Element>
struct LevelOutput {
  at::Tensor y, again;
  NormGradients gradients;
};

template <class Element>
LevelOutput<Element> run(const vector::NormKernels<Element>& kernels, const NormCase& c) {
  const bool layer = c.parameters.mode == NormMode::layer;
  const at::Tensor weight = c.parameters.weight.to(at::kFloat);
  const at::Tensor bias = layer ? c.parameters.bias->to(at::kFloat) : at::zeros({width});
  const at::Tensor mean = at::empty({rows});
  const at::Tensor rstd = at::empty({rows});
  const at::Tensor partials = at::empty({blocks, 2, width});
  LevelOutput<Element> output{at::empty_like(c.x), at::empty_like(c.x), zero_gradients(c)};
  output.gradients.dweight = at::empty({width});
  output.gradients.dbias = at::empty({width});
  vector::NormForwardArrays<Element> arrays{.x = elements<Element>(c.x),
                                            .residual = nullptr,
                                            .weight = elements<float>(weight),
                                            .bias = elements<float>(bias),
                                            .y = mutable_elements<Element>(output.y),
                                            .mean = layer ? mutable_elements<float>(mean) : nullptr,
                                            .rstd = mutable_elements<float>(rstd),
                                            .rows = rows,
                                            .width = width,
                                            .eps = static_cast<float>(c.parameters.eps)};
  kernels.forward(arrays);
  arrays.y = mutable_elements<Element>(output.again);
  kernels.recompute(arrays);
  kernels.backward({.dy = elements<Element>(c.dy),
                    .x = elements<Element>(c.x),
                    .mean = arrays.mean,
                    .rstd = arrays.rstd,
                    .weight = arrays.weight,
                    .dx = mutable_elements<Element>(output.gradients.dx),
                    .partials = mutable_elements<float>(partials),
                    .dweight = mutable_elements<float>(output.gradients.dweight),
                    .dbias = layer ? mutable_elements<float>(output.gradients.dbias) : nullptr,
                    .rows = rows,
                    .width = width});
  return output;
}

template <class Element>
void check_every_level(at::ScalarType type, double tolerance) {
  const NormMode mode = GENERATE(NormMode::layer, NormMode::root_mean_square);
  const NormCase c = make_norm_case(rows, width, mode, type);
  const NormCase wide = in_float64(c);
  const NormGradients exact = accumulated(wide, zero_gradients(wide));
  at_every_level([&]<int level> {
    INFO("level " << level);
    const LevelOutput<Element> output = run(vector::norm_kernels_for<level, Element>(), c);
    CHECK(largest_error(output.y, exact_norm(c)) < tolerance);
    CHECK(at::equal(output.y, output.again));
    CHECK(largest_error(output.gradients.dx, exact.dx) < 2 * tolerance);
    CHECK(largest_error(output.gradients.dweight, exact.dweight) < 4 * fp32_tolerance);
    if (mode == NormMode::layer) CHECK(largest_error(output.gradients.dbias, exact.dbias) < 4 * fp32_tolerance);
  });
}

TEST_CASE("norms in fp32 are correct at every instruction-set level") {
  check_every_level<float>(at::kFloat, fp32_tolerance);
}

TEST_CASE("norms in bf16 are correct at every instruction-set level") {
  check_every_level<std::uint16_t>(at::kBFloat16, bf16_rounding + fp32_tolerance);
}

}  // namespace
}  // namespace llmtrain::kernels
