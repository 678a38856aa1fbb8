// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "core/model/layers/fp8_statistics.h"

namespace llmtrain::test {
namespace {

using kernels::Fp8Format;

const Fp8Representation& of_inputs(const Fp8Statistics& statistics) {
  return statistics.of_kinds()[static_cast<std::size_t>(Fp8Tensors::inputs)];
}

Fp8Representation representation(const at::Tensor& x, float scale, Fp8Format format) {
  Fp8Statistics statistics;
  statistics.add(Fp8Tensors::inputs, x, at::full({1}, scale), format);
  return of_inputs(statistics);
}

}  // namespace

TEST_CASE("elements beyond the format and those that become 0 are counted") {
  // E4M3: most 448; the least is 2⁻⁹, below half of which numbers become 0.
  const at::Tensor x = at::tensor({0.0F, 448.0F, -448.5F, 1000.0F, 0x1p-9F, 0x1p-11F, -0x1p-10F, 1.0F});
  const Fp8Representation plain = representation(x, 1, Fp8Format::e4m3);
  CHECK(plain.elements == 8);
  CHECK(plain.amax == 1000);
  CHECK(plain.saturated == 2);
  CHECK(plain.underflowed == 2);  // the tie goes to the even neighbour, 0
  CHECK(plain.noise == Approx(0.25 + 552.0 * 552 + 0x1p-22 + 0x1p-20).epsilon(1e-9));
  const Fp8Representation scaled = representation(x, 0.25F, Fp8Format::e4m3);
  CHECK(scaled.saturated == 0);
  CHECK(scaled.underflowed == 3);
  CHECK(representation(x, 4, Fp8Format::e5m2).saturated == 0);
}

TEST_CASE("the signal to noise ratio is the format's") {
  at::manual_seed(1);
  const at::Tensor x = at::randn({100000});
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    CHECK(representation(x.to(type), 64, Fp8Format::e4m3).signal_to_noise() == Approx(31.5).margin(0.5));
    CHECK(representation(x.to(type), 1024, Fp8Format::e5m2).signal_to_noise() == Approx(25.5).margin(0.5));
  }
  // What the format has is represented without noise.
  CHECK(representation(at::ones({4}), 1, Fp8Format::e4m3).signal_to_noise() == std::numeric_limits<double>::infinity());
}

TEST_CASE("tensors of a kind count as one") {
  at::manual_seed(2);
  const at::Tensor x = at::randn({300, 200});  // more than one piece
  Fp8Statistics parts;
  parts.add(Fp8Tensors::inputs, x.slice(0, 0, 100), at::full({1}, 64.0F), Fp8Format::e4m3);
  parts.add(Fp8Tensors::inputs, x.slice(0, 100), at::full({1}, 16.0F), Fp8Format::e4m3);
  const Fp8Representation& both = of_inputs(parts);
  CHECK(both.elements == 60000);
  CHECK(both.amax == x.abs().max().item<double>());
  CHECK((both.smallest_scale == 16 && both.largest_scale == 64));
  CHECK(both.signal == Approx(x.to(at::kDouble).square().sum().item<double>()));
  CHECK(parts.of_kinds()[static_cast<std::size_t>(Fp8Tensors::weights)].elements == 0);

  const at::Tensor broken = at::tensor({1.0F, std::numeric_limits<float>::quiet_NaN()});
  parts.add(Fp8Tensors::inputs, broken, at::ones({1}), Fp8Format::e4m3);
  CHECK(std::isnan(of_inputs(parts).amax));
  CHECK(std::isnan(of_inputs(parts).signal_to_noise()));
}

}  // namespace llmtrain::test
