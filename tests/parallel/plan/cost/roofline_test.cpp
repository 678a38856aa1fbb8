// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/roofline.h"

#include <catch2/catch.hpp>

namespace llmtrain {
namespace {

// 100 TFLOP/s and 1 TB/s, at full efficiency.
ClusterProfile ideal_profile() {
  ClusterProfile profile;
  profile.device.memory_bandwidth = 1e12;
  profile.device.peak_flops = {10e12, 0, 100e12, 100e12, 200e12};
  profile.matrix = {1, 0, 0, 1};
  profile.attention = {0.5, 0.25};
  profile.memory = {1, 0};
  return profile;
}

TEST_CASE("a large product takes its FLOPs divided by the peak") {
  const ClusterProfile profile = ideal_profile();
  const MatrixProduct product{4096, 4096, 4096};
  const double flops = 2.0 * 4096 * 4096 * 4096;
  CHECK(Roofline(profile, DataType::bf16).product(product).seconds == Approx(flops / 100e12));
  CHECK(Roofline(profile, DataType::fp32).product(product).seconds == Approx(flops / 10e12));
  CHECK(Roofline(profile, DataType::bf16).product(product, MatrixType::fp8).seconds == Approx(flops / 200e12));
  CHECK(Roofline(profile, DataType::bf16).product({4096, 4096, 4096, 3}).seconds == Approx(3 * flops / 100e12));
}

TEST_CASE("attention runs at the profile's rates, or at those of a program's own kernels") {
  const ClusterProfile profile = ideal_profile();
  ClusterProfile with_own = profile;
  with_own.name = "ideal-80gb";
  with_own.program.attention = {{"ideal", {0.8, 0.4}}};
  const Roofline usual(profile, DataType::bf16), own(with_own, DataType::bf16);
  CHECK(usual.attention_forward(1e12).seconds == Approx(1.0 / 50));
  CHECK(usual.attention_backward(1e12).seconds == Approx(1.0 / 25));
  CHECK(own.attention_forward(1e12).seconds == Approx(1.0 / 80));
  CHECK(own.attention_backward(1e12).seconds == Approx(1.0 / 40));
}

TEST_CASE("a thin product takes its bytes divided by the bandwidth") {
  const ClusterProfile profile = ideal_profile();
  const double bytes = 2 * (8.0 * 4096 + 4096.0 * 4096 + 8.0 * 4096);
  CHECK(Roofline(profile, DataType::bf16).product({8, 4096, 4096}).seconds == Approx(bytes / 1e12));
  CHECK(Roofline(profile, DataType::fp32).product({8, 4096, 4096}).seconds == Approx(2 * bytes / 1e12));
}

TEST_CASE("efficiency falls to one half at the profile's sizes") {
  ClusterProfile profile = ideal_profile();
  const double whole = Roofline(profile, DataType::bf16).product({8192, 8192, 512}).seconds;
  profile.matrix.inner_half = 512;
  CHECK(Roofline(profile, DataType::bf16).product({8192, 8192, 512}).seconds == Approx(2 * whole));
  profile.matrix.inner_half = 0;
  profile.matrix.outer_half = 8192;
  CHECK(Roofline(profile, DataType::bf16).product({8192, 8192, 512}).seconds == Approx(2 * whole));
  CHECK(shape_efficiency(profile.matrix, {8192, 8192, 512, 3}) == Approx(0.75));
}

TEST_CASE("passes over memory take a start-up time and their bytes' time") {
  ClusterProfile profile = ideal_profile();
  profile.memory = {0.5, 1e6};
  profile.device.kernel_seconds = 3e-6;
  const Roofline roofline(profile, DataType::bf16);
  CHECK(roofline.pass(1e6).seconds == Approx(3e-6 + 2e6 / 0.5e12));
  CHECK(roofline.pass(0).seconds == 0);
  CHECK(roofline.pass(0).operators == 0);
  CHECK(roofline.pass(1e6).operators == 1);
}

TEST_CASE("fused attention runs at its fractions of the peak") {
  const ClusterProfile profile = ideal_profile();
  const Roofline roofline(profile, DataType::bf16);
  CHECK(roofline.attention_forward(1e12).seconds == Approx(1e12 / 50e12));
  CHECK(roofline.attention_backward(1e12).seconds == Approx(1e12 / 25e12));
}

TEST_CASE("the host bounds many small operators") {
  ClusterProfile profile = ideal_profile();
  profile.host.operator_seconds = 1e-5;
  const Roofline roofline(profile, DataType::bf16);
  CHECK(roofline.seconds({1e-3, 10}) == 1e-3);
  CHECK(roofline.seconds({1e-3, 1000}) == Approx(1e-2));
}

TEST_CASE("where the host waits for each operator, its time comes on top of the device's") {
  ClusterProfile profile = ideal_profile();
  profile.host.operator_seconds = 1e-5;
  profile.program.host.synchronous = true;
  const Roofline roofline(profile, DataType::bf16);
  CHECK(roofline.seconds({1e-3, 10}) == Approx(1e-3 + 1e-4));
  CHECK(roofline.seconds({1e-3, 1000}) == Approx(1e-3 + 1e-2));
}

TEST_CASE("more work is never faster") {
  ClusterProfile profile = ideal_profile();
  profile.matrix = {0.8, 128, 1000, 0.7};
  profile.memory = {0.8, 1e6};
  const Roofline roofline(profile, DataType::bf16);
  for (double size = 16; size < 20000; size *= 1.37) {
    const double now = roofline.product({size, 700, 300}).seconds;
    CHECK(roofline.product({size * 1.1, 700, 300}).seconds >= now);
    CHECK(roofline.product({700, size * 1.1, 300}).seconds >= roofline.product({700, size, 300}).seconds);
    CHECK(roofline.product({700, 300, size * 1.1}).seconds >= roofline.product({700, 300, size}).seconds);
    CHECK(roofline.product({size, 700, 300, 2}).seconds >= now);
    CHECK(roofline.pass(size * 1.1).seconds > roofline.pass(size).seconds);
  }
}

}  // namespace
}  // namespace llmtrain
