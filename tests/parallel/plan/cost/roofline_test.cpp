// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/roofline.h"

#include <catch2/catch.hpp>
#include <memory>

#include "tests/parallel/plan/cost/ideal_profile.h"

namespace llmtrain {
namespace {

using test::cast_seconds;
using test::ideal_profile;
using test::measured_profile;

TEST_CASE("a program of measured rates runs its operators as the tables say") {
  const ClusterProfile profile = measured_profile();
  const Roofline roofline(profile, DataType::bf16);
  const double flops = 2.0 * 4096 * 4096 * 4096;
  CHECK(roofline.product({4096, 4096, 4096}).seconds == Approx(flops / 100e12 / (0.9 * 0.5)));
  CHECK(roofline.product({1024, 4096, 4096, 4}).seconds == Approx(flops / 100e12 / (0.9 * 0.5)));
  CHECK(roofline.pass(4e6).seconds == Approx(2e-6 + 4e6 / 0.8e12));
  const AttentionSizes sizes{2048, 512, 512, 512};
  CHECK(roofline.attention_forward(1e12, sizes).seconds == Approx(1 / (100 * 0.9 * 0.2)));
  CHECK(roofline.attention_backward(1e12, sizes).seconds == Approx(1 / (100 * 0.6 * 0.9 * 0.2)));
  CHECK(roofline.attention_efficiency({256, 512, 512, 512}).fraction == Approx(0.9 * 0.2 / 2));
  CHECK(roofline.product_efficiency({512, 8192, 512}, MatrixType::compute).basis == Basis::measured);
  CHECK(roofline.product_efficiency({512, 4096, 512}, MatrixType::compute).basis == Basis::interpolated);
}

TEST_CASE("FP8 products are priced without the cast that was measured with them") {
  const ClusterProfile profile = measured_profile();
  const Roofline roofline(profile, DataType::bf16);
  const double flops = 2.0 * 4096 * 4096 * 4096;
  CHECK(roofline.product({4096, 4096, 4096}, MatrixType::fp8).seconds ==
        Approx(flops / 200e12 / (0.9 * 0.25) - cast_seconds * 4096 * 4096));
  // What is left is never faster than products whose cast takes little of their time.
  ClusterProfile slow = profile;
  OperatorTables tables = *profile.operators;
  tables.fp8_cast_seconds = 1;
  slow.operators = std::make_shared<const OperatorTables>(tables);
  CHECK(Roofline(slow, DataType::bf16).product({4096, 4096, 4096}, MatrixType::fp8).seconds ==
        Approx(flops / 200e12 / 0.75));
}

TEST_CASE("FP4 products have a peak, a table and operands of their own, and none where the device has none") {
  ClusterProfile profile = measured_profile();
  profile.device.peak_flops.fp4 = 400e12;
  OperatorTables tables = *profile.operators;
  tables.fp8_cast_seconds = 0;
  profile.operators = std::make_shared<const OperatorTables>(tables);
  const double flops = 2.0 * 4096 * 4096 * 4096;
  const auto seconds = [&](ProductFormat format, const MatrixProduct& product) {
    PrecisionRecipe precision{.compute = DataType::bf16, .fp8_level = Fp8Level::o0};
    precision.product_format = format;
    return Roofline(profile, precision).product(product, MatrixType::fp8).seconds;
  };
  const MatrixProduct large{4096, 4096, 4096}, thin{8, 4096, 4096};
  // Without a table of FP4 the curve, which reaches the peak here.
  CHECK(seconds(ProductFormat::nvfp4, large) == Approx(flops / 400e12));
  tables.products["nvfp4"] = tables.products["fp8"];
  profile.operators = std::make_shared<const OperatorTables>(tables);
  CHECK(seconds(ProductFormat::nvfp4, large) == Approx(flops / 400e12 / (0.9 * 0.25)));
  CHECK(seconds(ProductFormat::mxfp4, large) == Approx(flops / 400e12 / (0.9 * 0.25)));
  // Bound by memory: 4 bits of each operand, a byte of scale for each 16 or 32 of them, and two bytes of each result.
  const auto bytes = [&](double operand) { return operand * 4096 * (8 + 4096) + 2.0 * 8 * 4096; };
  profile.device.memory_bandwidth = 1e10;
  CHECK(seconds(ProductFormat::nvfp4, thin) == Approx(2e-6 + bytes(0.5625) / 0.8e10));
  CHECK(seconds(ProductFormat::mxfp4, thin) == Approx(2e-6 + bytes(0.53125) / 0.8e10));
  profile.device.memory_bandwidth = 1e12;
  profile.device.peak_flops.fp4 = 0;
  CHECK(seconds(ProductFormat::nvfp4, large) == Approx(flops / 100e12 / (0.9 * 0.5)));
}

TEST_CASE("below the measured sizes efficiency falls, and never so that less work takes longer") {
  const ClusterProfile profile = measured_profile();
  const Roofline roofline(profile, DataType::bf16);
  // Half of a tile is filled by 128 columns, four fifths by 512.
  CHECK(roofline.product_efficiency({4096, 128, 4096}, MatrixType::compute).fraction == Approx(0.45 * 0.5 / 0.8));
  CHECK(roofline.product_efficiency({4096, 4096, 256}, MatrixType::compute).fraction ==
        Approx(0.45 * 0.5 / (512.0 / 768)));
  for (double size = 16; size < 20000; size *= 1.37) {
    CHECK(roofline.product({size * 1.1, 700, 300}).seconds >= roofline.product({size, 700, 300}).seconds);
    CHECK(roofline.product({700, size * 1.1, 300}).seconds >= roofline.product({700, size, 300}).seconds);
    CHECK(roofline.product({700, 300, size * 1.1}).seconds >= roofline.product({700, 300, size}).seconds);
  }
}

TEST_CASE("fitted rates hold for programs that do not ask for measured ones, and where nothing was measured") {
  ClusterProfile profile = measured_profile();
  profile.program.kernels.rates = KernelRates::fitted;
  CHECK(Roofline(profile, DataType::bf16).product({4096, 4096, 4096}).seconds ==
        Roofline(ideal_profile(), DataType::bf16).product({4096, 4096, 4096}).seconds);
  ClusterProfile unmeasured = ideal_profile();
  unmeasured.program.kernels.rates = KernelRates::measured;
  const Roofline roofline(unmeasured, DataType::bf16);
  CHECK(roofline.pass(1e6).seconds == Approx(1e6 / 1e12));
  CHECK(roofline.attention_backward(1e12, {}).seconds == Approx(1.0 / 25));
  CHECK_FALSE(roofline.product_efficiency({4096, 4096, 4096}, MatrixType::compute).basis.has_value());
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
  CHECK(usual.attention_forward(1e12, {}).seconds == Approx(1.0 / 50));
  CHECK(usual.attention_backward(1e12, {}).seconds == Approx(1.0 / 25));
  CHECK(own.attention_forward(1e12, {}).seconds == Approx(1.0 / 80));
  CHECK(own.attention_backward(1e12, {}).seconds == Approx(1.0 / 40));
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
  CHECK(roofline.attention_forward(1e12, {}).seconds == Approx(1e12 / 50e12));
  CHECK(roofline.attention_backward(1e12, {}).seconds == Approx(1e12 / 25e12));
}

TEST_CASE("the host bounds many small operators") {
  ClusterProfile profile = ideal_profile();
  profile.host.operator_seconds = 1e-5;
  const Roofline roofline(profile, DataType::bf16);
  CHECK(roofline.seconds({1e-3, 10}) == 1e-3);
  CHECK(roofline.seconds({1e-3, 1000}) == Approx(1e-2));
}

TEST_CASE("a program's operators may be several launches each") {
  ClusterProfile profile = ideal_profile();
  profile.host.operator_seconds = 1e-5;
  profile.program.host.launch = 3;
  CHECK(Roofline(profile, DataType::bf16).seconds({1e-3, 1000}) == Approx(3e-2));
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
