// SPDX-License-Identifier: Apache-2.0
// Muon on a GPU, emulated here with the project's kernels, against the processor and float64.
#include "kernels/muon/muon.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <optional>

#include "kernels/muon/orthogonalize.h"
#include "kernels/reduction.h"
#include "tests/emulator/torch/backend.h"
#include "tests/kernels/orthogonalized.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {
namespace {

const at::Device gpu{at::kCUDA, 0};

// What the GPU was asked for while a call ran, in which the host must not wait for it.
template <class Call>
std::int64_t launches_of(Call call) {
  const emulated::Counters& counters = emulated::counters(0);
  const std::int64_t before = counters.launches;
  const emulated::NoSynchronisation no_wait;
  call();
  return counters.launches - before;
}

// Elements [begin, end), as where the matrices of a group follow each other.
at::Tensor part(const at::Tensor& x) { return x.slice(0, 3, x.numel() - 1); }

}  // namespace

TEST_CASE("orthogonalising on a GPU takes four launches and four for a step, without a wait") {
  for (const auto& [rows, columns] : {std::pair{24L, 24L}, {7L, 33L}, {33L, 7L}, {64L, 48L}, {9L, 1L}, {1L, 1L}}) {
    INFO(rows << " x " << columns);
    const at::Tensor here = random_tensor({rows, columns}, at::kFloat) * 1e-3, there = here.to(gpu);
    for (const std::int64_t steps : {1, 5}) {
      const at::Tensor want = orthogonalized(here, steps);
      for (const auto type : {at::kFloat, at::kBFloat16}) {
        at::Tensor got;
        CHECK(launches_of([&] { got = orthogonalize(there, steps, type, 0.5); }) == 4 + 4 * steps);
        CHECK(got.is_contiguous());
        // As on a processor: a step scales small singular values, and rounding errors among them, by up to 3.4.
        CHECK(error_of_largest(got.cpu() * 2, want) < (type == at::kFloat ? 2e-4 : 0.2));
        CHECK(error_of_largest(got.cpu(), orthogonalize(here, steps, type, 0.5)) < (type == at::kFloat ? 2e-4 : 0.2));
      }
    }
  }
}

TEST_CASE("a matrix of zeros on a GPU is orthogonalised to zeros, and no size of numbers matters") {
  CHECK(orthogonalize(at::zeros({4, 6}, at::device(gpu)), 5, at::kBFloat16).cpu().equal(at::zeros({4, 6})));
  const at::Tensor matrix = random_tensor({40, 60}, at::kFloat);
  const at::Tensor want = orthogonalize(matrix.to(gpu), 5, at::kBFloat16).cpu();
  for (const double size : {0x1p-20, 0x1p40})
    CHECK(orthogonalize((matrix * size).to(gpu), 5, at::kBFloat16).cpu().equal(want));
}

TEST_CASE("the passes of Muon over flat memory are one kernel each on a GPU, and the processor's up to rounding") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  constexpr std::int64_t n = 5003;
  const at::Tensor mean = random_tensor({n}, at::kFloat), gradients = random_tensor({n}, type),
                   weights = random_tensor({n}, at::kFloat), values = random_tensor({n}, at::kFloat);
  const at::Tensor mean_there = mean.to(gpu), gradients_there = gradients.to(gpu), weights_there = weights.to(gpu),
                   values_there = values.to(gpu);
  const MuonMean how{0.95, 0.37};
  at::Tensor ahead;
  CHECK(launches_of([&] { muon_mean_(part(mean_there), part(gradients_there), how); }) == 1);
  CHECK(launches_of([&] { ahead = muon_mean_ahead(part(mean_there), part(gradients_there), how); }) == 1);
  muon_mean_(part(mean), part(gradients), how);
  CHECK(largest_error(mean_there.cpu(), mean) < 2 * fp32_rounding);
  CHECK(largest_error(ahead.cpu(), muon_mean_ahead(part(mean), part(gradients), how)) < 4 * fp32_rounding);

  std::optional<at::Tensor> rounded;
  if (type != at::kFloat) rounded = part(at::zeros({n}, at::device(gpu).dtype(type)));
  const MuonStep step{.learning_rate = 0.02, .weight_decay = 0.1};
  CHECK(launches_of([&] { muon_step_(part(weights_there), part(values_there), step, rounded); }) == 1);
  muon_step_(part(weights), part(values), step, std::nullopt);
  CHECK(largest_error(weights_there.cpu(), weights) < 2 * fp32_rounding);
  if (rounded) CHECK(rounded->cpu().equal(part(weights_there).cpu().to(type)));
}

TEST_CASE("a sum of squares on a GPU is two kernels without a wait, also of a part of an array") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const at::Tensor x = random_tensor({40007}, type), there = x.to(gpu);
  at::Tensor sum;
  CHECK(launches_of([&] { sum = sum_of_squares_there(part(there)); }) == 2);
  CHECK(sum.item<double>() == Approx(part(x).to(at::kDouble).square().sum().item<double>()).epsilon(1e-6));
  CHECK(sum_of_squares(part(there)) == sum.item<double>());
}

}  // namespace llmtrain::kernels
