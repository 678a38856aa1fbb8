// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/replica_check.h"

#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "parallel/engine/trainer.h"
#include "tests/parallel/engine/train_ranks.h"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

constexpr std::size_t weights = 0, states = 1;

// The hashes of a world in which all ranks agree, but for one.
std::vector<ReplicaHashes> all_but(int ranks, int other, std::size_t what) {
  std::vector<ReplicaHashes> all(static_cast<std::size_t>(ranks), ReplicaHashes{7, 8, 9, 10});
  all[static_cast<std::size_t>(other)][what] ^= 1;
  return all;
}

// What check_replicas() throws on each rank of a world that has trained two steps, after `change` on every rank.
std::vector<std::string> outcomes(int ranks, const Overrides& overrides,
                                  const std::function<void(int, LocalModel&)>& change) {
  const TrainingSetting setting;
  const Recipe recipe = setting.recipe(overrides);
  std::vector<std::string> said(static_cast<std::size_t>(ranks));
  LocalWorld world(ranks);
  world.run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, ranks), communicator, at::kCPU);
    TrainingSetting::train(trainer, 2);
    change(communicator.rank(), trainer.model());
    try {
      check_replicas(trainer.model(), 2);
    } catch (const Error& error) {
      said[static_cast<std::size_t>(communicator.rank())] =
          std::to_string(static_cast<int>(error.code())) + " " + error.what();
    }
  });
  return said;
}

void flip_bit(const at::Tensor& memory) { static_cast<char*>(memory.data_ptr())[memory.nbytes() - 1] ^= 1; }

}  // namespace

TEST_CASE("ranks that differ from most of their replicas are named") {
  const Mesh mesh{.tensor = 2, .data = 4, .zero_shard = 4};
  CHECK(replica_differences(mesh, std::vector<ReplicaHashes>(8), false).empty());
  const auto found = replica_differences(mesh, all_but(8, 5, weights), false);
  REQUIRE(found.size() == 1);
  CHECK(found[0].what == Replicated::weights);
  CHECK(found[0].ranks == std::vector<int>{5});
  CHECK(found[0].group == std::vector<int>{1, 3, 5, 7});
}

TEST_CASE("ranks without a majority are all named") {
  const auto found = replica_differences(Mesh{.data = 2, .zero_shard = 2}, all_but(2, 1, states), false);
  REQUIRE(found.size() == 1);
  CHECK(found[0].what == Replicated::states);
  CHECK(found[0].ranks == std::vector<int>{0, 1});
}

TEST_CASE("states that ZeRO shards are compared with those of the same shard alone") {
  const auto hashes = all_but(4, 3, states);
  CHECK(replica_differences(Mesh{.data = 4, .zero_shard = 4}, hashes, true).empty());
  const auto found = replica_differences(Mesh{.data = 4, .zero_shard = 2}, hashes, true);
  REQUIRE(found.size() == 1);
  CHECK(found[0].group == std::vector<int>{1, 3});
}

TEST_CASE("replicas are equal whatever the layout") {
  for (const auto& [ranks, overrides] :
       std::vector<RankCase>{{2, {"batch.micro=4"}},
                             {2, {zero(1), "batch.micro=4", "precision.compute=\"bf16\""}},
                             {2, {zero(3), "batch.micro=4", "pipeline.loops=3"}},
                             {4, {zero(2), "batch.micro=2", "parallel.zero_shard_ranks=2"}},
                             {4, {"parallel.tensor=2", "batch.micro=4", zero(1)}},
                             {4,
                              {"parallel.context=2", "parallel.pipeline=2", "pipeline.balance=[2,1]", "batch.micro=4",
                               "model.tie_embeddings=true"}},
                             // On one rank a split that may be switched is the only one.
                             {1,
                              {R"(model.moe={"experts": 4, "top_k": 2})", zero(3), "parallel.expert_slices=1",
                               "parallel.expert_tensor=\"auto\""}}}) {
    INFO(in_words(ranks, overrides));
    const std::vector<std::string> said = outcomes(ranks, overrides, [](int, LocalModel&) {});
    CHECK(said == std::vector<std::string>(said.size()));
  }
}

TEST_CASE("a bit that is flipped in one replica is found, on all ranks alike") {
  const auto spoil_weights = [](int rank, LocalModel& model) {
    if (rank == 2)
      flip_bit(model.units().back()->store->weight(model.units().back()->store->ranges().back().parameter));
  };
  const auto spoil_moments = [](int rank, LocalModel& model) {
    if (rank == 2) flip_bit(model.units().back()->parameters->optimizer_states().back().values);
  };
  for (const int stage : {0, 1}) {
    const std::vector<std::string> said = outcomes(4, {zero(stage), "batch.micro=2"}, spoil_weights);
    CHECK_THAT(said[0], Catch::StartsWith("69 step 2: the weights of rank 2 (host "));
    CHECK_THAT(said[0], Catch::Contains("differ from those of the other ranks of [0, 1, 2, 3]"));
    CHECK(said == std::vector<std::string>(4, said[0]));
  }
  const std::vector<std::string> said =
      outcomes(4, {zero(3), "batch.micro=2", "parallel.zero_shard_ranks=2"}, spoil_moments);
  CHECK_THAT(said[0], Catch::StartsWith("69 step 2: the states of rank 0 (host "));
  CHECK_THAT(said[0], Catch::Contains(") and rank 2 (host "));
  CHECK(said == std::vector<std::string>(4, said[0]));
}
