// SPDX-License-Identifier: Apache-2.0
// Products of several experts in one kernel, by tables of their own.
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "parallel/plan/cost/roofline.h"
#include "tests/parallel/plan/cost/ideal_profile.h"

namespace llmtrain {
namespace {

// With a table of grouped products: 0.4 of their roofline at 16 rows of an expert, 0.6 at 1,024, whatever the other
// sizes; FP8 products of one matrix reach half the part of their peak that those in 16 bits do.
ClusterProfile grouped_profile() {
  ClusterProfile profile = test::measured_profile();
  OperatorTables tables = *profile.operators;
  tables.fp8_cast_seconds = 0;
  const std::vector<std::vector<double>> axes{{16, 1024}, {1, 64}, {1 << 20, 1 << 24}};
  tables.grouped_products = {{"bf16", EfficiencyTable(axes, {0.4, 0.4, 0.4, 0.4, 0.6, 0.6, 0.6, 0.6})}};
  profile.operators = std::make_shared<const OperatorTables>(tables);
  return profile;
}

// The same with another part of the peak that FP8 products of one matrix reach.
ClusterProfile with_fp8_efficiency(double efficiency) {
  ClusterProfile profile = grouped_profile();
  OperatorTables tables = *profile.operators;
  const EfficiencyTable& old = tables.products.at("fp8");
  tables.products["fp8"] = EfficiencyTable(old.axes(), std::vector<double>(old.efficiencies().size(), efficiency));
  profile.operators = std::make_shared<const OperatorTables>(tables);
  return profile;
}

// Eight experts, whose products are bound by arithmetic, by memory, and those of fewer rows than measured.
constexpr MatrixProduct many_rows{1024, 2048, 1024, 8}, few_rows{16, 2048, 1024, 8}, fewest_rows{15, 2048, 1024, 8};

// What `few_rows` moves: the matrices and the rows that they multiply, and results of two bytes.
double bytes_of_few(double operand) { return 8 * (operand * 1024 * (16 + 2048) + 2.0 * 16 * 2048); }

TEST_CASE("grouped products are as far from their roofline as measured ones") {
  const ClusterProfile profile = grouped_profile();
  const Roofline roofline(profile, DataType::bf16);
  CHECK(roofline.grouped_product(many_rows).seconds == Approx(many_rows.flops() / 100e12 / (0.9 * 0.6)));
  CHECK(roofline.grouped_product(few_rows).seconds == Approx(bytes_of_few(2) / 1e12 / (0.9 * 0.4)));
  CHECK(roofline.grouped_efficiency(few_rows, MatrixType::compute).basis == Basis::interpolated);
  // Fewer rows than measured: as other products.
  CHECK(roofline.grouped_product(fewest_rows).seconds == Approx(roofline.product(fewest_rows).seconds));
  // Matrices of half the sides of the smallest measured ones.
  CHECK(roofline.grouped_efficiency({1024, 512, 512, 8}, MatrixType::compute).fraction ==
        Approx(0.9 * 0.6 * (512.0 / 768) / (1024.0 / 1280)));
}

TEST_CASE("each size of grouped products is looked up on its own axis") {
  ClusterProfile profile = grouped_profile();
  OperatorTables tables = *profile.operators;
  const std::vector<std::vector<double>> axes{{16, 1024}, {1, 64}, {1 << 20, 1 << 24}};
  tables.grouped_products = {{"bf16", EfficiencyTable(axes, {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8})}};
  profile.operators = std::make_shared<const OperatorTables>(tables);
  const Roofline roofline(profile, DataType::bf16);
  const auto found = [&](double rows, double experts, double side) {
    return roofline.grouped_efficiency({rows, side, side, experts}, MatrixType::compute).fraction / 0.9;
  };
  CHECK(found(16, 1, 1024) == Approx(0.1));
  CHECK(found(16, 1, 4096) == Approx(0.2));
  CHECK(found(16, 64, 1024) == Approx(0.3));
  CHECK(found(1024, 1, 1024) == Approx(0.5));
  CHECK(found(1024, 64, 4096) == Approx(0.8));
}

TEST_CASE("grouped products in FP8 are as far from theirs as other products in FP8") {
  const ClusterProfile profile = grouped_profile();
  const Roofline roofline(profile, DataType::bf16);
  // The peak is twice as high, and products reach half as much of it.
  CHECK(roofline.grouped_product(many_rows, MatrixType::fp8).seconds ==
        Approx(roofline.grouped_product(many_rows).seconds));
  CHECK(roofline.grouped_efficiency(many_rows, MatrixType::fp8).basis == Basis::extrapolated);
  // Bound by memory they read operands of one byte.
  CHECK(roofline.grouped_product(few_rows, MatrixType::fp8).seconds == Approx(bytes_of_few(1) / 1e12 / (0.9 * 0.4)));
  // Those that reach more of their peak than products in 16 bits do not exceed it.
  const ClusterProfile fast = with_fp8_efficiency(0.8);
  CHECK(Roofline(fast, DataType::bf16).grouped_product(many_rows, MatrixType::fp8).seconds ==
        Approx(many_rows.flops() / 200e12 / (0.9 * 0.6)));
}

TEST_CASE("a grouped product is one kernel with its gap, and an empty one is none") {
  ClusterProfile profile = grouped_profile();
  const double alone = Roofline(profile, DataType::bf16).grouped_product(many_rows).seconds;
  profile.device.kernel_seconds = 3e-6;
  const Roofline roofline(profile, DataType::bf16);
  CHECK(roofline.grouped_product(many_rows).seconds == Approx(alone + 3e-6));
  CHECK(roofline.grouped_product(many_rows).operators == 1);
  for (const MatrixProduct& empty : {MatrixProduct{1024, 2048, 1024, 0}, MatrixProduct{0, 2048, 1024, 8}}) {
    CHECK(roofline.grouped_product(empty).seconds == 0);
    CHECK(roofline.grouped_product(empty).operators == 0);
  }
}

TEST_CASE("the gradient of grouped weights takes the forward's time, where that was measured") {
  const ClusterProfile profile = grouped_profile();
  const Roofline roofline(profile, DataType::bf16);
  const auto gradient = [&](const MatrixProduct& product, bool is_grouped) {
    return roofline.weight_gradient(product, MatrixType::compute, is_grouped).seconds;
  };
  CHECK(gradient(many_rows, true) == roofline.grouped_product(many_rows).seconds);
  // Otherwise it is the product of what comes in and the outputs' gradients over all rows.
  CHECK(gradient(fewest_rows, true) == roofline.product({2048, 1024, 15, 8}).seconds);
  CHECK(gradient(many_rows, false) == roofline.product({2048, 1024, 1024, 8}).seconds);
}

TEST_CASE("programs of fitted rates, and devices without a table of them, price grouped products as others") {
  ClusterProfile fitted = grouped_profile(), unmeasured = grouped_profile();
  fitted.program.kernels.rates = KernelRates::fitted;
  OperatorTables tables = *unmeasured.operators;
  tables.grouped_products.clear();
  unmeasured.operators = std::make_shared<const OperatorTables>(tables);
  for (const ClusterProfile& profile : {fitted, unmeasured}) {
    const Roofline roofline(profile, DataType::bf16);
    CHECK_FALSE(roofline.measures_grouped(many_rows));
    CHECK(roofline.grouped_product(many_rows).seconds == roofline.product(many_rows).seconds);
  }
}

TEST_CASE("grouped products reach the part of their tables' rate that the program states") {
  ClusterProfile profile = grouped_profile();
  const double whole = Roofline(profile, DataType::bf16).grouped_product(many_rows).seconds;
  profile.program.kernels.speed = 0.5;
  CHECK(Roofline(profile, DataType::bf16).grouped_product(many_rows).seconds == Approx(2 * whole));
}

}  // namespace
}  // namespace llmtrain
