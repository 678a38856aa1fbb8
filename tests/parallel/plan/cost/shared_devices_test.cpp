// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/profile/cluster_profile.h"

#include <catch2/catch.hpp>

#include "parallel/plan/cost/roofline.h"

namespace llmtrain {
namespace {

ClusterProfile machine(DeviceKind kind, std::int64_t devices) {
  ClusterProfile profile;
  profile.device.kind = kind;
  profile.device.memory_bytes = 64e9;
  profile.device.memory_bandwidth = 40e9;
  profile.device.peak_flops = {400e9, 0, 800e9, 400e9, 0};
  profile.matrix = {0.8, 32, 64, 0};
  profile.memory = {0.7, 10000};
  profile.node.devices = devices;
  profile.node.link_bandwidth = 10e9;
  return profile;
}

Recipe ranks(std::int64_t data, std::int64_t pipeline, std::int64_t nodes) {
  Recipe recipe;
  recipe.parallel.data = data;
  recipe.parallel.pipeline = pipeline;
  recipe.cluster.nodes = nodes;
  return recipe;
}

ClusterProfile shared(const ClusterProfile& profile, const Recipe& recipe) {
  Mesh mesh;
  mesh.data = recipe.launch.ranks.value_or(recipe.parallel.data.value_or(16) * recipe.parallel.pipeline);
  mesh.devices_per_node = devices_per_node(recipe, profile);
  return share_devices(profile, mesh);
}

double ranks_per_device(const ClusterProfile& profile, const Recipe& recipe) {
  return shared(profile, recipe).ranks_per_device;
}

TEST_CASE("ranks that share a processor get equal parts of it") {
  const ClusterProfile whole = machine(DeviceKind::cpu, 1);
  const ClusterProfile part = shared(whole, ranks(2, 2, 1));
  CHECK(part.ranks_per_device == 4);
  CHECK(part.node.devices == 4);
  CHECK(part.device.memory_bytes == 16e9);
  CHECK(part.device.memory_bandwidth == 10e9);
  CHECK(part.device.peak_flops.fp32 == 100e9);
  CHECK(part.node.link_bandwidth == 2.5e9);
}

TEST_CASE("work split over all ranks of a processor takes as long as on one rank") {
  const ClusterProfile whole = machine(DeviceKind::cpu, 1);
  const ClusterProfile part = shared(whole, ranks(4, 1, 1));
  const Roofline one(whole, DataType::fp32), quarter(part, DataType::fp32);
  const double elements = 4096.0 * 768;
  CHECK(quarter.product({1024, 768, 768}).seconds == Approx(one.product({4096, 768, 768}).seconds).epsilon(1e-6));
  CHECK(quarter.pass(elements).seconds == Approx(one.pass(4 * elements).seconds).epsilon(1e-6));
}

TEST_CASE("a pass over little memory takes equally long on a part of a processor") {
  const ClusterProfile whole = machine(DeviceKind::cpu, 1);
  const ClusterProfile part = shared(whole, ranks(4, 1, 1));
  CHECK(Roofline(part, DataType::fp32).pass(1e-3).seconds ==
        Approx(Roofline(whole, DataType::fp32).pass(1e-3).seconds).epsilon(1e-6));
}

TEST_CASE("nothing is shared with as many ranks as devices, on other machines and on GPUs") {
  CHECK(ranks_per_device(machine(DeviceKind::cpu, 1), ranks(1, 1, 1)) == 1);
  CHECK(ranks_per_device(machine(DeviceKind::cpu, 2), ranks(2, 1, 1)) == 1);
  CHECK(ranks_per_device(machine(DeviceKind::cpu, 1), ranks(4, 1, 4)) == 1);
  CHECK(ranks_per_device(machine(DeviceKind::cuda, 8), ranks(64, 1, 1)) == 1);
}

TEST_CASE("ranks per machine follow from the launched ranks, else the degrees, up to the recipe's limit") {
  const ClusterProfile profile = machine(DeviceKind::cpu, 2);
  Recipe recipe = ranks(8, 1, 2);
  CHECK(ranks_per_device(profile, recipe) == 2);
  recipe.launch.ranks = 12;
  CHECK(ranks_per_device(profile, recipe) == 3);
  recipe.cluster.devices_per_node = 6;
  CHECK(ranks_per_device(profile, recipe) == 3);
  recipe.cluster.devices_per_node = 4;
  CHECK(ranks_per_device(profile, recipe) == 2);
  recipe.launch.ranks.reset();
  recipe.parallel.data.reset();
  CHECK(ranks_per_device(profile, recipe) == 2);
}

}  // namespace
}  // namespace llmtrain
