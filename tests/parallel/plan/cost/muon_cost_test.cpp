// SPDX-License-Identifier: Apache-2.0
// Muon's update against sums by hand. planned_equals_run_test compares small ones with what a run does.
#include "parallel/plan/cost/muon_cost.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "core/recipe/recipe_io.h"
#include "parallel/plan/cost/muon_matrices.h"
#include "tests/support/source_folder.h"

namespace llmtrain {
namespace {

constexpr double hidden = 1024;

// GPT-2's shapes on 16 GPUs. A layer has 12 · hidden² elements of matrices: query, key, value and output of attention,
// and two of four times that size.
Partition partition_of(std::vector<std::string> overrides) {
  const std::string text = R"({"model": {"architecture": "gpt2", "layers": 8, "hidden_size": 1024, "heads": 16,
    "vocab_size": 51200, "max_sequence_length": 1024}, "batch": {"global": 64, "micro": 1},
    "training": {"steps": 1, "optimizer": {"name": "muon"}}, "precision": {"compute": "bf16"},
    "pipeline": {"schedule": "interleaved"},
    "cluster": {"profile": "a100-80gb", "nodes": 2, "devices_per_node": 8, "device": "cuda"}})";
  return Partition::make(parse_recipe(text, "test", ".", overrides), 8);
}

std::vector<double> seconds_of(const Partition& partition, double pcie_bandwidth = 0) {
  const auto folder = test::source_folder() / "recipes/clusters";
  ClusterProfile profile = load_profile("a100-80gb", folder);
  if (pcie_bandwidth > 0) profile.device.pcie_bandwidth = pcie_bandwidth;
  return muon_seconds(PricedLayout(partition, profile));
}

// With stages of one, two, one and three layers, in turn on two ranks.
const std::vector<std::string> uneven{"model.layers=7", "parallel.pipeline=2", "pipeline.loops=2",
                                      "pipeline.balance=[1, 2, 1, 3]"};

Partition uneven_partition(const std::vector<std::string>& more) {
  std::vector<std::string> overrides = uneven;
  overrides.insert(overrides.end(), more.begin(), more.end());
  return partition_of(overrides);
}

}  // namespace

// Each of two ranks sends its half of every second matrix and the other's half of the results for the rest.
TEST_CASE("of two tensor ranks each sends as many bytes of matrices as it has") {
  const std::vector<MuonTraffic> traffic = muon_traffic(uneven_partition({"parallel.tensor=2"}));
  REQUIRE(traffic.size() == 2);
  CHECK(traffic[0].split == 4 * (1 + 1) * 12 * hidden * hidden / 2);
  CHECK(traffic[1].split == 4 * (2 + 3) * 12 * hidden * hidden / 2);
  for (const MuonTraffic& of_rank : traffic) CHECK(of_rank.cut + of_rank.expert_cut + of_rank.expert_split == 0);
}

// The end of the first of two shards is between layers, or in the middle of the larger matrix of one.
TEST_CASE("of two shards each sends half of every matrix that is cut in the middle") {
  const std::vector<std::string> two{"parallel.tensor=4", "parallel.zero_stage=1"};
  const double half = 4 * hidden * hidden / 4 / 2;
  const std::vector<MuonTraffic> traffic = muon_traffic(uneven_partition(two));
  REQUIRE(traffic.size() == 2);
  CHECK(traffic[0].cut == 4 * 2 * half);
  CHECK(traffic[1].cut == 4 * half);
}

TEST_CASE("a rank takes for Muon the time of all its stages") {
  const std::vector<double> by_stage =
      seconds_of(partition_of({"model.layers=7", "parallel.pipeline=4", "pipeline.balance=[1, 2, 1, 3]"}));
  const std::vector<double> seconds = seconds_of(uneven_partition({}));
  REQUIRE(by_stage.size() == 4);
  REQUIRE(seconds.size() == 2);
  CHECK(by_stage[1] > 1.5 * by_stage[0]);
  CHECK(by_stage[2] == by_stage[0]);
  CHECK(seconds[0] == Approx(by_stage[0] + by_stage[2]));
  CHECK(seconds[1] == Approx(by_stage[1] + by_stage[3]));
}

// Per element 8 bytes each way, of fp32 momentum and master weights, over a link that takes longer than the update.
TEST_CASE("Muon's update takes as long as its copies to the device, or from it, where these take longer") {
  constexpr double slow = 1e9, elements = 12 * hidden * hidden;
  const std::vector<double> none = seconds_of(uneven_partition({}));
  const auto with = [](const std::vector<std::string>& more, double bandwidth) {
    return seconds_of(uneven_partition(more), bandwidth);
  };
  for (const std::string optimizer : {"true", "\"disk\""}) {
    const std::string host = "memory.offload.optimizer=" + optimizer;
    CHECK(with({host}, slow)[0] == Approx(2 * elements * 8 / slow));
    CHECK(with({host}, slow)[1] == Approx(5 * elements * 8 / slow));
    // What is hidden costs nothing.
    CHECK(with({host}, 1e15) == none);
  }
  // Gradients (fp32) that have left before come back; rounded weights that are the host's leave.
  const std::vector<std::string> weights{"memory.offload.optimizer=true", "parallel.zero_stage=3",
                                         "memory.offload.weights=true"};
  CHECK(with({"memory.offload.optimizer=true", "memory.offload.gradients=true"}, slow)[0] ==
        Approx(2 * elements * 12 / slow));
  // A rank has one of eight shards, which also exchange what their ends cut.
  CHECK(with(weights, slow)[0] == Approx(2 * elements / 8 * 10 / slow).epsilon(0.01));
  // Under naive swapping one thing follows another.
  const std::string naive = "memory.policy=\"naive_swapping\"";
  CHECK(with({naive}, slow)[0] - with({naive}, 1e15)[0] > 2 * elements * 2 * 8 / 8 / slow);
}

// The second stage of each rank stays: one of the first rank's two layers, and three of the second's five.
TEST_CASE("matrices of stages that stay on the device are not copied") {
  const auto with_host = [](const std::string& stay) {
    return seconds_of(uneven_partition({"memory.offload.optimizer=true", "memory.offload.resident_stages=" + stay}),
                      1e9);
  };
  const std::vector<double> none = seconds_of(uneven_partition({})), all = with_host("0"), some = with_host("1");
  REQUIRE(all[0] > 2 * none[0]);
  CHECK(some[0] - none[0] == Approx((all[0] - none[0]) / 2));
  CHECK(some[1] - none[1] == Approx((all[1] - none[1]) * 2 / 5));
}

// The polynomial takes bf16: the last iterate is of four times hidden², and the result in fp32.
TEST_CASE("Muon's workspace is that of the largest matrix") {
  CHECK(muon_workspace(uneven_partition({}), ComputeDevice::cuda) == (4 * 4 + (2 + 4) * 4) * hidden * hidden);
  CHECK(muon_workspace(uneven_partition({"parallel.tensor=2"}), ComputeDevice::cuda) ==
        (3 * 4 * 4 + (2 + 4) * 4) * hidden * hidden);
  // A momentum and weights are on their way to the host.
  CHECK(muon_workspace(uneven_partition({"memory.offload.optimizer=true"}), ComputeDevice::cuda) ==
        (2 * 4 * 4 + 4 * 4 + (2 + 4) * 4) * hidden * hidden);
}

// A piece has as many elements as one of the four small matrices of a layer, and a quarter of a large one. On four
// tensor ranks a layer is a piece of small matrices and two of a large one each; the first of two shards of three
// layers ends in the middle of the second layer's first large matrix, half of which it sends away.
TEST_CASE("pieces of a file are in memory from the first read of their matrices until these have left") {
  const auto pieces_of = [](const std::vector<std::string>& more, ComputeDevice device) {
    std::vector<std::string> overrides{"memory.offload.optimizer=\"disk\""};
    overrides.insert(overrides.end(), more.begin(), more.end());
    const Partition partition = uneven_partition(overrides);
    HeldPieces most;
    for (const auto& groups : partition.groups)
      for (const StateGroup& group : groups)
        for (const HeldPieces& held : held_pieces(partition, group, device == ComputeDevice::cuda)) most.join(held);
    return most;
  };
  constexpr std::int64_t piece = 8 << 20;
  // One matrix at a time, of four pieces.
  CHECK(pieces_of({}, ComputeDevice::cpu).count == 4);
  CHECK(pieces_of({}, ComputeDevice::cpu).bytes == 4 * piece);
  // Beside a GPU the first is still leaving when the second one arrives.
  CHECK(pieces_of({}, ComputeDevice::cuda).bytes == 8 * piece);
  const std::vector<std::string> two{"parallel.tensor=4", "parallel.zero_stage=1"};
  // That half, a layer's two large matrices, and the next one's first two small ones, which the ranks take at once.
  CHECK(pieces_of(two, ComputeDevice::cpu).count == 4);
  CHECK(pieces_of(two, ComputeDevice::cpu).bytes == 3 * piece + piece / 2);
  // Each rank of the pipeline has as many as any of its stages.
  const Partition partition = uneven_partition({"memory.offload.optimizer=\"disk\""});
  for (const std::int64_t rank : {0, 1}) {
    CHECK(piece_memory(partition, rank).count == 8);
    CHECK(piece_memory(partition, rank).bytes == piece);
  }
}

}  // namespace llmtrain
