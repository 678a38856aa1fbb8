// SPDX-License-Identifier: Apache-2.0
// Kernels and bytes that operators take on a GPU, as the emulated one counts them, beside those of a fused operator:
// what it reads and writes once, in bf16 with statistics and sums in fp32.
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>

#include "kernels/activation.h"
#include "kernels/adamw.h"
#include "kernels/cross_entropy.h"
#include "kernels/norm.h"
#include "kernels/random/dropout.h"
#include "kernels/rope.h"
#include "tests/emulator/torch/backend.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {
namespace {

const at::Device gpu{at::kCUDA, 0};
constexpr std::int64_t rows = 1024, width = 512;

at::Tensor on_gpu(at::IntArrayRef shape, at::ScalarType type = at::kBFloat16) {
  return random_tensor(shape, type).to(gpu);
}

struct Cost {
  std::int64_t kernels = 0;
  double bytes = 0;  // per element
};

Cost counts_until_now() {
  Cost cost;
  emulated::NamedCounts all = emulated::named_counts();
  for (const auto& [name, launches] : all["launches"]) cost.kernels += launches;
  for (const auto& [name, bytes] : all["bytes"]) cost.bytes += static_cast<double>(bytes);
  return cost;
}

// What a call of `rows` times `width` elements takes is at most what the fused operators do.
void check(const Cost& fused, const std::function<void()>& call) {
  const Cost before = counts_until_now();
  call();
  const Cost after = counts_until_now();
  CHECK(after.kernels - before.kernels <= fused.kernels);
  CHECK((after.bytes - before.bytes) / (rows * width) <= 1.05 * fused.bytes);
}

}  // namespace

TEST_CASE("norms on a GPU take the kernels and bytes of fused ones") {
  const NormMode mode = GENERATE(NormMode::layer, NormMode::root_mean_square);
  const at::Tensor x = on_gpu({rows, width}), dy = on_gpu({rows, width});
  NormParameters parameters{mode, on_gpu({width}), std::nullopt, 1e-5};
  std::optional<at::Tensor> dbias;
  if (mode == NormMode::layer) parameters.bias = on_gpu({width}), dbias = on_gpu({width}, at::kFloat);
  NormOutput output;
  check({1, 4}, [&] { output = norm_forward(x, parameters); });
  at::Tensor residual = on_gpu({rows, width}), dx = on_gpu({rows, width}), dweight = on_gpu({width}, at::kFloat);
  check({1, 8}, [&] { add_norm_forward(residual, x, parameters); });
  // A second one adds up the parameters' gradients: from partial sums, which are two for a LayerNorm.
  check({2, mode == NormMode::layer ? 8.25 : 8},
        [&] { norm_backward(dy, x, output.mean, output.rstd, parameters, dx, dweight, dbias, Accumulation::add); });
}

TEST_CASE("rotations and activation functions on a GPU take the kernels and bytes of fused ones") {
  at::Tensor heads = on_gpu({rows, width / 64, 64});
  const RopeTable table = make_rope_table(64, 64, 10000, gpu);
  check({1, 4}, [&] { rope_(heads, table, 64, RopeDirection::forward); });
  const at::Tensor x = on_gpu({rows, width}), both = on_gpu({rows, 2 * width}), dy = on_gpu({rows, width});
  check({1, 4}, [&] { activation_forward(x, ActivationKind::gelu); });
  check({1, 6}, [&] { activation_backward(dy, x, ActivationKind::gelu); });
  check({1, 6}, [&] { activation_forward(both, ActivationKind::swiglu); });
  check({1, 10}, [&] { activation_backward(dy, both, ActivationKind::swiglu); });
}

TEST_CASE("dropout on a GPU takes the kernel and bytes of a fused one, also with the residual") {
  at::Tensor x = on_gpu({rows, width});
  const at::Tensor residual = on_gpu({rows, width});
  const Dropout dropout{.probability = 0.1, .key = 7};
  const SequencePart whole;
  check({1, 4}, [&] { dropout_(x, dropout); });
  check({1, 6}, [&] { add_dropped_rows_(x, residual, dropout, {whole, rows, 0}); });
}

TEST_CASE("the loss with its gradient and AdamW's step on a GPU take the kernels and bytes of fused ones") {
  at::Tensor logits = on_gpu({rows, width});
  const at::Tensor targets = at::randint(width, {rows}, test_generator(), at::kLong).to(gpu);
  check({1, 4}, [&] { cross_entropy_forward_backward_(logits, targets, 1); });
  AdamwState state{on_gpu({rows * width}, at::kFloat), on_gpu({rows * width}, at::kFloat),
                   on_gpu({rows * width}, at::kFloat).square()};
  const at::Tensor gradients = on_gpu({rows * width}, at::kFloat);
  std::optional<at::Tensor> rounded = on_gpu({rows * width});
  // Weights, moments and gradients in fp32, and the rounded copy.
  check({1, 30}, [&] { adamw_(state, gradients, {.learning_rate = 1e-2, .step = 3}, rounded); });
}

}  // namespace llmtrain::kernels
