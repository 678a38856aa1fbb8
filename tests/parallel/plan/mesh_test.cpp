// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/mesh.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <vector>

#include "core/base/error.h"
#include "core/graph/sharding.h"
#include "parallel/layout/layout.h"

namespace llmtrain {
namespace {

// 8 layers with 8 heads, batch 64, on one device unless the test changes it.
Recipe recipe() {
  Recipe recipe;
  recipe.model.layers = recipe.model.heads = recipe.model.kv_heads = 8;
  recipe.model.hidden_size = recipe.model.ffn_hidden_size = 64;
  recipe.model.max_sequence_length = 32;
  recipe.batch = {.global = 64, .micro = 1, .sequence_length = 32};
  return recipe;
}

Recipe with(const std::function<void(Recipe&)>& change) {
  Recipe changed = recipe();
  change(changed);
  return changed;
}

std::string failure(const Recipe& recipe, std::int64_t devices_per_node = 8) {
  try {
    make_mesh(recipe, devices_per_node);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_recipe);
    return error.what();
  }
  return "no error";
}

TEST_CASE("the world is launch.ranks, the explicit degrees, or the cluster") {
  CHECK(make_mesh(recipe(), 8).world() == 8);
  CHECK(make_mesh(recipe(), 8).data == 8);
  CHECK(make_mesh(with([](Recipe& r) { r.cluster.nodes = 4; }), 8).data == 32);
  CHECK(make_mesh(with([](Recipe& r) { r.launch.ranks = 2; }), 8).data == 2);
  CHECK(make_mesh(with([](Recipe& r) { r.parallel.data = 4, r.parallel.tensor = 2; }), 4).world() == 8);
  const Mesh mesh = make_mesh(with([](Recipe& r) { r.parallel.tensor = r.parallel.pipeline = 2; }), 8);
  CHECK(mesh.data == 2);
  CHECK(mesh.zero_shard == 2);
  CHECK(mesh.micro_batches(recipe().batch) == 32);
}

TEST_CASE("all reasons are reported at once, each with the nearest legal value") {
  CHECK(
      failure(with([](Recipe& r) {
                r.parallel.tensor = 2;
                r.parallel.data = 5;
                r.parallel.expert = 2;
                r.pipeline.loops = 9;
                r.batch.sequence_length = 31;
                r.parallel.sequence = true;
              }),
              10) ==
      "/batch/sequence_length: 31 is not a multiple of 2; must be a multiple of parallel.context × parallel.tensor, as "
      "parallel.sequence splits it; did you mean 32?\n"
      "/parallel/expert: 2 ranks have no experts to split; must be 1 without model.moe; did you mean 1?\n"
      "/batch/global: 64 is not a multiple of 5; must be a multiple of batch.micro × parallel.data; did you mean 65?\n"
      "/pipeline/balance: \"layers\" cannot split 8 layers over the 9 stages (pipeline 1 × loops 9); set "
      "/pipeline/loops to 8 or /model/layers to 9");
}

TEST_CASE("a world that the degrees do not divide") {
  CHECK(failure(with([](Recipe& r) { r.launch.ranks = 5, r.parallel.tensor = 2; })) ==
        "/launch/ranks: 5 is not a multiple of 2; must be a multiple of parallel.tensor × pipeline × context; did you "
        "mean 6?");
  CHECK(failure(with([](Recipe& r) { r.launch.ranks = 4, r.parallel.tensor = 2, r.parallel.data = 4; })) ==
        "/launch/ranks: 4 does not match parallel; must be parallel.tensor × pipeline × context × data; did you mean "
        "--set parallel.data=2?");
  CHECK(failure(with([](Recipe& r) { r.cluster.nodes = 3, r.parallel.tensor = r.parallel.pipeline = 4; })) ==
        "/cluster/nodes: 3 × 8 devices is not a multiple of 16; nodes × devices_per_node must be a multiple of "
        "parallel.tensor × pipeline × context; did you mean 4?");
}

TEST_CASE("nodes are filled evenly") {
  CHECK(failure(with([](Recipe& r) { r.parallel.data = 16; })) == "no error");
  CHECK(failure(with([](Recipe& r) { r.parallel.data = 4, r.cluster.nodes = 1; })) == "no error");
  CHECK(failure(with([](Recipe& r) { r.parallel.data = 12, r.batch.global = 12; })) ==
        "/cluster/devices_per_node: 12 ranks do not fill nodes of 8 devices; must divide the ranks; did you mean 6?");
  CHECK(failure(with([](Recipe& r) { r.parallel.data = 16, r.cluster.nodes = 4; })) ==
        "/cluster/nodes: 4 × 8 devices do not match the 16 ranks; must be the ranks ÷ devices_per_node; did you mean "
        "--set cluster.nodes=2, or --set parallel.data=32?");
}

TEST_CASE("a schedule that cannot run") {
  CHECK_THAT(failure(with([](Recipe& r) {
               r.parallel.pipeline = 2, r.pipeline.loops = 2, r.pipeline.schedule = PipelineSchedule::gpipe;
             })),
             Catch::StartsWith("/pipeline/loops: 2 is not possible with gpipe"));
  CHECK_THAT(failure(with([](Recipe& r) {
               r.parallel.pipeline = 4, r.parallel.data = 2, r.pipeline.loops = 2, r.batch.global = 20;
               r.pipeline.schedule = PipelineSchedule::interleaved;
             })),
             Catch::StartsWith("/batch/global: 20 is not a multiple of 8") && Catch::EndsWith("did you mean 24?"));
}

TEST_CASE("experts divide the ranks of a stage, and shards the data ranks") {
  const auto experts = [](Recipe& r) {
    r.model.moe = MixtureOfExpertsRecipe{.experts = 12, .ffn_hidden_size = 64};
    r.parallel.data = 8;
  };
  CHECK(failure(with([&](Recipe& r) { experts(r), r.parallel.expert = 4; })) == "no error");
  CHECK(failure(with([&](Recipe& r) { experts(r), r.parallel.expert = 6; })) ==
        "/parallel/expert: 6 does not divide 12 experts and 8 ranks; must divide model.moe.experts and "
        "parallel.tensor × context × data ÷ expert_tensor; did you mean 4?");
  CHECK_THAT(failure(with([&](Recipe& r) { experts(r), r.parallel.expert = 8; })), Catch::Contains("did you mean 4?"));
  CHECK(failure(with([&](Recipe& r) { experts(r), r.parallel.expert_tensor = 2; })) == "no error");
  CHECK(failure(with([&](Recipe& r) { experts(r), r.parallel.expert = 4, r.parallel.expert_tensor = 4; })) ==
        "/parallel/expert: 4 does not divide 12 experts and 2 groups of 4 ranks; must divide model.moe.experts and "
        "parallel.tensor × context × data ÷ expert_tensor; did you mean 2?");
  // Four tensor ranks and two context ranks beside the data ranks: 64.
  const auto split = [&](std::int64_t expert, std::int64_t expert_tensor) {
    return failure(with([&](Recipe& r) {
      experts(r), r.model.moe->experts = 64, r.parallel.tensor = 4, r.parallel.context = 2, r.parallel.expert = expert;
      r.parallel.expert_tensor = expert_tensor;
    }));
  };
  CHECK(split(64, 1) == "no error");
  CHECK(split(8, 8) == "no error");
  CHECK_THAT(split(1, 6), Catch::StartsWith("/parallel/expert_tensor: 6 does not divide 64") &&
                              Catch::Contains("parallel.tensor × context × data") &&
                              Catch::Contains("did you mean 4?"));
  CHECK_THAT(split(32, 4), Catch::StartsWith("/parallel/expert: 32 does not divide 64 experts and 16 groups of 4") &&
                               Catch::Contains("did you mean 16?"));
  CHECK_THAT(failure(with([](Recipe& r) { r.parallel.data = 8, r.parallel.zero_shard_ranks = 3; })),
             Catch::Contains("/parallel/zero_shard_ranks: 3 does not divide 8") && Catch::Contains("did you mean 2?"));
}

TEST_CASE("absurd degrees are one plain reason") {
  CHECK(failure(with([](Recipe& r) {
          r.parallel.tensor = r.parallel.pipeline = r.parallel.context = 1 << 20;
          r.parallel.data = 1 << 20;
        })) == "/parallel: makes more than 2^24 ranks; tensor × pipeline × context × data must be at most 16777216");
  CHECK(failure(with([](Recipe& r) { r.cluster.nodes = 1 << 20; }), 1 << 10) ==
        "/cluster/nodes: makes more than 2^24 ranks; nodes × devices_per_node must be at most 16777216");
}

TEST_CASE("groups of ranks on nodes of eight") {
  const Mesh mesh{.tensor = 4,
                  .context = 2,
                  .data = 6,
                  .pipeline = 2,
                  .expert = 2,
                  .expert_tensor = 4,
                  .zero_shard = 3,
                  .devices_per_node = 8};
  CHECK(tensor_group(mesh) == RankGroup{4, 1, 4});
  CHECK(context_group(mesh) == RankGroup{2, 4, 2});
  CHECK(data_group(mesh) == RankGroup{12, 4, 2});
  CHECK(shard_group(mesh) == RankGroup{6, 4, 2});
  CHECK(replica_group(mesh) == RankGroup{2, 24, 1});
  CHECK(expert_group(mesh) == RankGroup{2, 4, 2});
  CHECK(expert_data_group(mesh) == RankGroup{6, 8, 1});
  CHECK(pipeline_neighbours(mesh) == RankGroup{2, 48, 1});
}

TEST_CASE("tensor neighbours hold the same heads where there are fewer heads than ranks") {
  Recipe shared = with([](Recipe& r) {
    r.parallel.tensor = 8, r.parallel.pipeline = 2;
    r.model.kv_heads = 2, r.model.head_dim = 8, r.model.vocab_size = 256;
  });
  const Mesh mesh = make_mesh(shared, 16);
  CHECK(copy_counts(*Partition::on_mesh(shared, mesh).graph, 8) == std::vector<std::int64_t>{4});
  CHECK(Partition::on_mesh(shared, mesh).copies_of(0, 4) == std::vector<int>{0, 1, 2, 3});
  CHECK(Partition::on_mesh(shared, mesh).copies_of(13, 4) == std::vector<int>{12, 13, 14, 15});
  shared.model.kv_heads = 8;
  CHECK(copy_counts(*Partition::on_mesh(shared, mesh).graph, 8).empty());
}

TEST_CASE("pipeline neighbours share a node if their rank numbers do") {
  const Mesh mesh{.tensor = 4, .pipeline = 4, .devices_per_node = 8};
  CHECK(pipeline_neighbours(mesh, 0).inside_node == 2);
  CHECK(pipeline_neighbours(mesh, 1).inside_node == 1);
  CHECK(pipeline_neighbours(mesh, 2).inside_node == 2);
  CHECK(pipeline_neighbours(mesh, 3).inside_node == 1);
  CHECK(pipeline_neighbours(mesh).inside_node == 1);
  CHECK(pipeline_neighbours({.tensor = 2, .pipeline = 4, .devices_per_node = 8}).inside_node == 2);
}

// Counts rank 0's group, as defined in the header, by enumerating all ranks.
std::int64_t count_members(const Mesh& mesh,
                           const std::function<bool(std::int64_t t, std::int64_t c, std::int64_t d)>& in,
                           std::int64_t span) {
  std::int64_t count = 0;
  for (std::int64_t d = 0; d < mesh.data; ++d)
    for (std::int64_t c = 0; c < mesh.context; ++c)
      for (std::int64_t t = 0; t < mesh.tensor; ++t)
        if (in(t, c, d) && (d * mesh.context + c) * mesh.tensor + t < span) ++count;
  return count;
}

TEST_CASE("groups agree with a count over all ranks") {
  rc::prop("ranks and ranks inside the first node", [] {
    const auto power = [](int most) { return std::int64_t{1} << *rc::gen::inRange(0, most); };
    Mesh mesh{.tensor = power(4), .context = power(3), .data = power(5), .devices_per_node = power(5)};
    mesh.zero_shard = std::min(mesh.data, power(4));
    mesh.expert_tensor = std::min(mesh.stage_ranks(), power(6));
    mesh.expert = std::min(mesh.stage_ranks() / mesh.expert_tensor, power(6));
    const auto rank = [&](std::int64_t t, std::int64_t c, std::int64_t d) {
      return (d * mesh.context + c) * mesh.tensor + t;
    };
    const auto agrees = [&](const RankGroup& group, const auto& in) {
      RC_ASSERT(group.ranks == count_members(mesh, in, mesh.world()));
      RC_ASSERT(group.inside_node == count_members(mesh, in, mesh.devices_per_node));
    };
    using Index = std::int64_t;
    agrees(tensor_group(mesh), [](Index, Index c, Index d) { return c == 0 && d == 0; });
    agrees(context_group(mesh), [](Index t, Index, Index d) { return t == 0 && d == 0; });
    agrees(data_group(mesh), [](Index t, Index, Index) { return t == 0; });
    agrees(shard_group(mesh), [&](Index t, Index, Index d) { return t == 0 && d < mesh.zero_shard; });
    agrees(replica_group(mesh), [&](Index t, Index c, Index d) { return t + c == 0 && d % mesh.zero_shard == 0; });
    const Index parts = mesh.expert * mesh.expert_tensor;
    agrees(expert_tensor_group(mesh), [&](Index t, Index c, Index d) { return rank(t, c, d) < mesh.expert_tensor; });
    agrees(expert_group(mesh),
           [&](Index t, Index c, Index d) { return rank(t, c, d) < parts && rank(t, c, d) % mesh.expert_tensor == 0; });
    agrees(expert_data_group(mesh), [&](Index t, Index c, Index d) { return rank(t, c, d) % parts == 0; });
  });
}

}  // namespace
}  // namespace llmtrain
