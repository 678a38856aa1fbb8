// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/profile/operator_tables.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/collective.h"
#include "core/base/error.h"
#include "parallel/plan/cost/collective_cost.h"
#include "parallel/plan/cost/roofline.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/published/row_recipes.h"
#include "tests/support/source_folder.h"

namespace llmtrain {
namespace {

using Catch::Contains;

constexpr std::array collectives = {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                    Collective::all_to_all};

const std::filesystem::path root = test::source_folder();

std::shared_ptr<const OperatorTables> tables_on(const std::string& device) {
  return load_profile(device, root / "recipes/clusters").operators;
}

EfficiencyTable small_table() { return {{{512, 2048}, {64, 128, 1024}}, {0.1, 0.2, 0.4, 0.3, 0.5, 0.9}}; }

TEST_CASE("a table gives back what it holds, and between its sizes the geometric mean") {
  const EfficiencyTable table = small_table();
  CHECK(table.find(std::vector<double>{512, 128}).efficiency == Approx(0.2));
  CHECK(table.find(std::vector<double>{2048, 1024}).efficiency == Approx(0.9));
  CHECK(table.find(std::vector<double>{512, 128}).basis == Basis::measured);
  // 1024 lies in the middle of 512 and 2048 by its logarithm, and 256 at a third of the way from 128 to 1024.
  CHECK(table.find(std::vector<double>{1024, 64}).efficiency == Approx(std::sqrt(0.1 * 0.3)));
  CHECK(table.find(std::vector<double>{512, 256}).efficiency ==
        Approx(std::pow(0.2, 2.0 / 3) * std::pow(0.4, 1.0 / 3)));
  CHECK(table.find(std::vector<double>{1024, 64}).basis == Basis::interpolated);
}

TEST_CASE("beyond its sizes a table gives what it holds at their end, and says so") {
  const EfficiencyTable table = small_table();
  CHECK(table.find(std::vector<double>{1, 64}).efficiency == Approx(0.1));
  CHECK(table.find(std::vector<double>{1e6, 1e6}).efficiency == Approx(0.9));
  CHECK(table.find(std::vector<double>{1e6, 256}).basis == Basis::extrapolated);
}

// The forward of the experts of a rank: both products and the passes over memory that a plan has beside them. `sizes`:
// rows of an expert, experts, model width, width, inputs of the activation in widths, tokens.
double expert_seconds(ClusterProfile profile, const std::vector<double>& sizes) {
  profile.program.kernels.rates = KernelRates::measured;
  profile.program.kernels.speed = 1 / profile.operators->training_speed;
  profile.device.kernel_seconds = 0;
  const Roofline roofline(profile, DataType::bf16);
  const double rows = sizes[0], experts = sizes[1], model_width = sizes[2], width = sizes[3], inputs = sizes[4];
  const double copied = model_width * (rows * experts + sizes[5]);
  return roofline.grouped_product({rows, inputs * width, model_width, experts}).seconds +
         roofline.grouped_product({rows, model_width, width, experts}).seconds + 2 * roofline.pass(2 * copied).seconds +
         roofline.pass(2 * (inputs + 1) * width * rows * experts).seconds;
}

// Errors of times against the sample of measurements in tests/published.
std::map<std::string, std::vector<double>> errors_by_table() {
  std::map<std::string, std::vector<double>> errors;
  for (const auto& row : published::read_columns(root / "tests/published/operators.csv")) {
    const std::string& name = row.at("operator");
    const bool is_product = name == "products";
    std::istringstream text(row.at("sizes"));
    const std::vector<double> sizes{std::istream_iterator<double>(text), {}};
    const ClusterProfile profile = load_profile(row.at("device"), root / "recipes/clusters");
    const double measured = std::stod(row.at("microseconds")) * 1e-6;
    const std::string key = name + " " + row.at("device") + " " + row.at("type");
    if (name == "experts") {
      errors[key].push_back(std::abs(expert_seconds(profile, sizes) / measured - 1));
      continue;
    }
    const auto& by_type = is_product ? profile.operators->products : profile.operators->attention;
    // Half of the scores are masked.
    const double flops =
        is_product ? 2 * sizes[0] * sizes[1] * sizes[2] : 2 * sizes[1] * sizes[0] * sizes[0] * sizes[3];
    const PeakFlops& peaks = profile.device.peak_flops;
    const double peak = row.at("type") == "bf16" ? peaks.bf16 : peaks.fp8;
    const double seconds = flops / (peak * by_type.at(row.at("type")).find(sizes).efficiency);
    errors[key].push_back(std::abs(seconds / measured - 1));
  }
  return errors;
}

TEST_CASE("times by the tables are near the measured ones") {
  for (auto& [name, errors] : errors_by_table()) {
    INFO(name);
    REQUIRE(errors.size() >= 40);
    std::ranges::sort(errors);
    const bool is_attention = name.starts_with("attention");
    // B200's products with a scale per block and its experts scatter most: several kernels are behind them.
    const bool scatters = name.ends_with("b200 fp8_block") || name.starts_with("experts b200");
    CHECK(errors[errors.size() / 2] < (is_attention ? 0.04 : scatters ? 0.12 : 0.08));
    CHECK(errors[errors.size() * 9 / 10] < (is_attention ? 0.12 : scatters ? 0.25 : 0.20));
  }
}

TEST_CASE("collectives inside a node take about as long as they were measured") {
  std::map<std::string, std::vector<double>> errors;
  for (const auto& row : published::read_columns(root / "tests/published/collectives.csv")) {
    ClusterProfile profile = load_profile(row.at("device"), root / "recipes/clusters");
    profile.program.kernels.collectives = KernelRates::measured;
    const std::string& name = row.at("collective");
    const Collective collective = *std::ranges::find(collectives, name, collective_name);
    const std::int64_t ranks = std::stoll(row.at("ranks"));
    const double seconds =
        CollectiveCost(profile, 8).seconds(collective, std::stod(row.at("bytes")), {ranks, 1, ranks});
    errors[row.at("device") + " " + name].push_back(std::abs(seconds / (std::stod(row.at("microseconds")) * 1e-6) - 1));
  }
  CHECK(errors.size() == 16);
  for (auto& [name, found] : errors) {
    INFO(name);
    REQUIRE(found.size() >= 12);
    std::ranges::sort(found);
    CHECK(found[found.size() / 2] < 0.05);
    // The largest contradict their neighbours, as all-to-alls of 32 kB, which take longer than ones of 256 kB.
    CHECK(found[found.size() * 3 / 4] < 0.12);
  }
}

TEST_CASE("by the tables more work never takes less time") {
  for (const char* device : {"a100-80gb", "h100-sxm-80gb", "h200", "b200"}) {
    const std::shared_ptr<const OperatorTables> tables = tables_on(device);
    for (const auto& [type, table] : tables->products) {
      INFO(device << ' ' << type);
      std::size_t stride = 1;
      for (std::size_t axis = table.axes().size(); axis-- > 0;) {
        const std::vector<double>& sizes = table.axes()[axis];
        for (std::size_t at = 0; at < table.efficiencies().size(); ++at) {
          const std::size_t place = at / stride % sizes.size();
          if (place == 0) continue;
          const double growth = table.efficiencies()[at] / table.efficiencies()[at - stride];
          // Three digits of each are stored.
          CHECK(growth <= sizes[place] / sizes[place - 1] * 1.01);
        }
        stride *= sizes.size();
      }
    }
  }
}

TEST_CASE("by the tables more work of experts never takes less time") {
  for (const char* device : {"a100-80gb", "h100-sxm-80gb", "h200", "b200"}) {
    ClusterProfile profile = load_profile(device, root / "recipes/clusters");
    profile.program.kernels.rates = KernelRates::measured;
    const Roofline roofline(profile, DataType::bf16);
    const auto seconds = [&](double rows, double experts, double side) {
      return roofline.grouped_product({rows, side, side, experts}).seconds;
    };
    const auto& axes = profile.operators->grouped_products.at("bf16").axes();
    for (std::size_t row = 1; row < axes[0].size(); ++row)
      for (std::size_t expert = 1; expert < axes[1].size(); ++expert)
        for (std::size_t element = 1; element < axes[2].size(); ++element) {
          const double rows = axes[0][row], experts = axes[1][expert], side = std::sqrt(axes[2][element]);
          INFO(device << ' ' << rows << ' ' << experts << ' ' << side);
          // Three digits of each are stored.
          const double least = seconds(rows, experts, side) * 1.01;
          CHECK(seconds(axes[0][row - 1], experts, side) <= least);
          CHECK(seconds(rows, axes[1][expert - 1], side) <= least);
          CHECK(seconds(rows, experts, std::sqrt(axes[2][element - 1])) <= least);
        }
  }
}

TEST_CASE("devices that were not measured borrow the tables of one that was") {
  CHECK(tables_on("a100-80gb")->measured_on == "a100-80gb");
  for (const char* borrower : {"a100-40gb", "a100-80gb-800gbps", "v100-32gb"}) {
    CHECK(tables_on(borrower)->measured_on == "a100-80gb");
    CHECK(tables_on(borrower)->products.at("bf16").efficiencies() ==
          tables_on("a100-80gb")->products.at("bf16").efficiencies());
    CHECK(tables_on(borrower)->grouped_products.at("bf16").efficiencies() ==
          tables_on("a100-80gb")->grouped_products.at("bf16").efficiencies());
  }
  CHECK(tables_on("cpu") == nullptr);
}

TEST_CASE("a profile's tables that cannot be looked up are refused") {
  nlohmann::ordered_json json = to_json(load_profile("a100-80gb", root / "recipes/clusters"));
  const auto message = [&](const std::string& pointer, const nlohmann::json& value) {
    nlohmann::ordered_json wrong = json;
    wrong[nlohmann::ordered_json::json_pointer(pointer)] = value;
    try {
      parse_profile(wrong.dump(), "p.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(message("/operators/products/inner/1", 512), Contains("/operators/products/inner: sizes must increase"));
  CHECK_THAT(message("/operators/products/bf16", {0.5}), Contains("has 1 numbers; the sizes make 245"));
  CHECK_THAT(message("/operators/products/bf16/3", 0), Contains("must be a list of 1 numbers or more from 1e-06 to 1"));
  CHECK_THAT(message("/operators/grouped_products/bf16", {0.5}), Contains("has 1 numbers; the sizes make 128"));
  CHECK_THAT(message("/operators/collectives/all_reduce", {0.5}), Contains("has 1 numbers; the sizes make 33"));
  CHECK_THAT(message("/operators/collectives/broadcast", {0.5}), Contains("/broadcast: is not a key"));
  CHECK_THAT(message("/operators/products/int8", {0.5}), Contains("/operators/products/int8: is not a key"));
  CHECK_THAT(message("/operators/training_speed", 2), Contains("/operators/training_speed"));
}

}  // namespace
}  // namespace llmtrain
