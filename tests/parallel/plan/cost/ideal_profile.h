// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "parallel/plan/profile/cluster_profile.h"

namespace llmtrain::test {

// 100 TFLOP/s and 1 TB/s, at full efficiency.
inline ClusterProfile ideal_profile() {
  ClusterProfile profile;
  profile.device.memory_bandwidth = 1e12;
  profile.device.peak_flops = {10e12, 0, 100e12, 100e12, 200e12};
  profile.matrix = {1, 0, 0, 1};
  profile.attention = {0.5, 0.25};
  profile.memory = {1, 0};
  return profile;
}

// How long measured_profile() says that the cast of an element of an FP8 product's first operand takes.
constexpr double cast_seconds = 1e-12;

// With tables that say one half of the peak of products in 16 bits, a quarter of FP8's and a fifth of attention's.
inline ClusterProfile measured_profile() {
  ClusterProfile profile = ideal_profile();
  const auto table = [](std::size_t axes, double efficiency) {
    return EfficiencyTable(std::vector<std::vector<double>>(axes, {512, 8192}),
                           std::vector<double>(std::size_t{1} << axes, efficiency));
  };
  OperatorTables tables;
  tables.measured_on = "ideal";
  tables.training_speed = 0.9;
  tables.memory_fraction = 0.8;
  tables.memory_seconds = 2e-6;
  tables.fp8_cast_seconds = cast_seconds;
  tables.products = {{"bf16", table(3, 0.5)}, {"fp8", table(3, 0.25)}};
  tables.attention = {{"bf16", table(4, 0.2)}};
  profile.operators = std::make_shared<const OperatorTables>(tables);
  profile.program.kernels = {KernelRates::measured, 0.6};
  return profile;
}

}  // namespace llmtrain::test
