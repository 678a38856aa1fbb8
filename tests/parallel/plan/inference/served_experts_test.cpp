// SPDX-License-Identifier: Apache-2.0
// What passes of served experts take, where grouped products were measured.
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <utility>

#include "core/graph/graph.h"
#include "parallel/plan/inference/pass_price.h"
#include "tests/parallel/plan/inference/inference_case.h"

namespace llmtrain {
namespace {

using namespace inference_case;

// Qwen3 30B on one H100, on which experts of 32 sequences are more than the 8 rows of the smallest measured ones.
PassPrice pass_of(const ClusterProfile& profile, const ServingRequest& request, std::int64_t sequences) {
  const Recipe recipe = bundled("models/qwen3-30b-a3b");
  const Graph graph = Graph::build(recipe.model);
  return PassPricer(graph, profile, recipe.precision, request, 8).price({}, {sequences, 1, 1024});
}

ClusterProfile measured() {
  ClusterProfile profile = load_profile("h100-sxm-80gb", recipes() / "clusters");
  profile.program.kernels.rates = KernelRates::measured;
  return profile;
}

ClusterProfile without_grouped(ClusterProfile profile) {
  OperatorTables tables = *profile.operators;
  tables.grouped_products.clear();
  profile.operators = std::make_shared<const OperatorTables>(tables);
  return profile;
}

// The experts' two products of a layer: 128 experts, of which each of 256 sequences' tokens goes to eight.
TEST_CASE("experts that are served take the time of measured grouped products", "[served_experts]") {
  const ClusterProfile profile = measured(), other = without_grouped(profile);
  const Roofline roofline(profile, DataType::bf16), plain(other, DataType::bf16);
  constexpr double hidden = 2048, width = 768, choices = 256 * 8, layers = 48;
  const double experts = 128 * (1 - std::pow(1 - 1 / 128.0, choices)), each = choices / experts;
  for (const auto& [type, element] : {std::pair{ServedType::compute, 2.0}, {ServedType::fp8, 1.0}}) {
    ServingRequest request = request_of("devices=1,batch=256,prompt=512,generated=64");
    request.weights = type;
    const MatrixType multiplied = type == ServedType::fp8 ? MatrixType::fp8 : MatrixType::compute;
    double difference = 0;
    for (const MatrixProduct& product :
         {MatrixProduct{each, 2 * width, hidden, experts}, MatrixProduct{each, hidden, width, experts}}) {
      // Weights in their type, rows in 16 bits.
      const double bytes =
          experts * (element * product.inner * product.columns + 2 * each * (product.inner + product.columns));
      const double peak = type == ServedType::fp8 ? profile.device.peak_flops.fp8 : profile.device.peak_flops.bf16;
      const double alone = product.flops() / (peak * plain.product_efficiency(product, multiplied).fraction);
      const double read = roofline.pass(bytes).seconds, gap = profile.device.kernel_seconds;
      const double grouped = roofline.grouped_seconds(product, multiplied, bytes);
      difference += std::max(read, grouped + gap) - std::max(read, alone + gap);
    }
    REQUIRE(std::abs(difference) > 1e-6);
    CHECK(pass_of(profile, request, 256).product_seconds - pass_of(other, request, 256).product_seconds ==
          Approx(layers * difference));
  }
}

}  // namespace
}  // namespace llmtrain
