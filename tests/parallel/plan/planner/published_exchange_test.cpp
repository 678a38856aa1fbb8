// SPDX-License-Identifier: Apache-2.0
// The prices of linear and hierarchical exchanges, and the memory of a layer, compared with those that Tutel has
// measured (Hwang et al., arXiv 2206.03382) on nodes of eight A100 with eight adapters of 200 Gb/s.
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>

#include "core/graph/operators/operators.h"
#include "core/graph/values.h"
#include "parallel/plan/cost/operator_cost.h"
#include "parallel/plan/memory/memory_model.h"
#include "parallel/plan/simulator/simulator.h"
#include "tests/parallel/plan/planner/planner_case.h"

namespace llmtrain::test {
namespace {

// Its single layer: 16,384 tokens of a rank, width 2,048 in both directions, two experts on each rank, top-2.
Recipe single_layer(std::int64_t ranks, AllToAll all_to_all) {
  Recipe recipe = parse_recipe(
      R"({"model": {"architecture": "gpt2", "layers": 1, "hidden_size": 2048, "heads": 16, "vocab_size": 512,
        "max_sequence_length": 2048, "moe": {"experts": 16, "top_k": 2, "ffn_hidden_size": 2048}},
        "batch": {"global": 64, "micro": 8}, "training": {"steps": 1}, "precision": {"compute": "fp16"},
        "cluster": {"profile": "a100-80gb"}})",
      "test", ".");
  recipe.model.moe->experts = 2 * ranks;
  recipe.batch.global = 8 * ranks;
  recipe.cluster.nodes = ranks / 8;
  recipe.parallel.expert = ranks;
  recipe.parallel.expert_all_to_all = all_to_all;
  return recipe;
}

// The router, the exchange and the experts of the layer.
OperatorList experts_of(const PricedLayout& priced) {
  OperatorList experts;
  for (const Operator& item : priced.operators.of(1))
    if (item.module == OperatorModule::experts) experts.push_back(item);
  return experts;
}

// Router, exchange and experts together, forward and backward, where a rank has so many tokens.
double layer_seconds(std::int64_t ranks, AllToAll all_to_all, std::int64_t tokens = 16384) {
  Recipe recipe = single_layer(ranks, all_to_all);
  recipe.batch.sequence_length = tokens / recipe.batch.micro;
  const Partition partition = Partition::make(recipe, 8);
  ClusterProfile cluster = profile_of(recipe);
  cluster.program = {};  // Tutel's kernels are not llmtrain's
  const PricedLayout priced(partition, cluster);
  const StageCost cost = block_cost(priced, experts_of(priced), Recompute::none);
  return cost.forward.seconds + cost.backward.seconds;
}

// How many times as fast a layer with hierarchical exchanges is.
double gain(std::int64_t ranks, std::int64_t tokens = 16384) {
  return layer_seconds(ranks, AllToAll::linear, tokens) / layer_seconds(ranks, AllToAll::hierarchical, tokens);
}

// Memory of the layer alone, with its parameters' states and what a process takes, from the ledger of a step: two
// experts of width 4,096 on each rank.
double layer_bytes(std::int64_t tokens) {
  Recipe recipe = single_layer(8, AllToAll::linear);
  recipe.model.hidden_size = recipe.model.moe->ffn_hidden_size = 4096;
  recipe.model.max_sequence_length = recipe.batch.sequence_length = tokens / recipe.batch.micro;
  const Partition partition = Partition::make(recipe, 8);
  ClusterProfile cluster;
  cluster.device.kind = DeviceKind::cuda;
  cluster.program.name = "another";
  const PricedLayout priced(partition, cluster);
  const OperatorList experts = experts_of(priced);
  const PassPeak peak = pass_peak(experts, Recompute::none, value_bytes(partition.graph->values[0], priced.setting()));
  StageMemory stage;
  for (const StateGroup& group : partition.groups.front())
    if (group.kind == StateGroup::Kind::experts) {
      const StateTypes& types = group.types;
      const double bytes_per_element =
          types.weight_bytes() + types.gradient_bytes() + types.master_bytes() + types.moment_bytes();
      stage.resident[MemoryCategory::weights] += bytes_per_element * static_cast<double>(group.elements());
    }
  const double saved = saved_bytes(experts, Recompute::none);
  stage.hold({MemoryCategory::activations, saved, MemoryEvent::forward_starts, MemoryEvent::backward_ends});
  stage.hold({MemoryCategory::buffers, peak.forward - saved, MemoryEvent::forward_starts, MemoryEvent::forward_ends});
  stage.hold(
      {MemoryCategory::buffers, peak.backward - saved, MemoryEvent::backward_starts, MemoryEvent::backward_ends});
  StepMemory memory;
  memory.stages = {stage};
  memory.rank[MemoryCategory::framework] = make_step_memory(priced).rank[MemoryCategory::framework];
  StepCosts costs;
  costs.stages = {{.forward = {.seconds = 1}, .backward = {.seconds = 1}}};
  costs.transfer_seconds = costs.optimizer_seconds = {0};
  return simulate(make_schedule({}), costs, memory, Timeline::leave_out).ranks.front().peak_bytes;
}

}  // namespace

TEST_CASE("at 64 to 2,048 ranks hierarchical exchanges gain as much as Tutel publishes") {
  double last = 0;
  for (const std::int64_t ranks : {16, 32, 64, 128, 256, 512, 1024, 2048}) {
    INFO(ranks << " ranks");
    CHECK(gain(ranks) > last);
    last = gain(ranks);
    // 128 MiB of a rank: not worth it over few ranks.
    CHECK((last > 1) == (ranks >= 64));
  }
  // Its layer is 4.25 times as fast for them at 2,048 GPUs. No price is fitted to that.
  CHECK(last == Approx(4.25).epsilon(0.15));
  // 512 KiB of a rank: always worth it.
  for (const std::int64_t ranks : {16, 64, 2048}) CHECK(gain(ranks, 64) > 1);
}

TEST_CASE("exchanges over 16 to 256 ranks take about as long as Tutel publishes") {
  // Those of a step of its layer of width 4,096 in both directions, with 65,536 tokens of a rank. We
  // take it that they are in fp32, which is not said: in 16 bits all prices would be half of these.
  const auto milliseconds = [](std::int64_t ranks) {
    Recipe recipe = single_layer(ranks, AllToAll::linear);
    recipe.model.hidden_size = recipe.model.moe->ffn_hidden_size = 4096;
    recipe.model.max_sequence_length = recipe.batch.sequence_length = 65536 / recipe.batch.micro;
    recipe.precision.compute = DataType::fp32;
    const Partition partition = Partition::make(recipe, 8);
    const ClusterProfile cluster = profile_of(recipe);
    const PricedLayout priced(partition, cluster);
    double seconds = 0;
    for (const Operator& item : experts_of(priced))
      for (const Exchange& exchange : item.exchanges)
        if (exchange.axis == RankAxis::expert) seconds += exchange_seconds(priced, exchange);
    return 1e3 * seconds;
  };
  CHECK(milliseconds(16) == Approx(189).epsilon(0.12));
  CHECK(milliseconds(64) == Approx(324).epsilon(0.12));
  // A quarter less than measured: beyond eight nodes a rank's bytes hardly grow, but the measured times do by half. The
  // switches between nodes, where messages meet, have no price.
  CHECK(milliseconds(256) == Approx(491).epsilon(0.27));
  CHECK(milliseconds(256) < 491);
}

TEST_CASE("a layer takes the memory that Tutel publishes, and grows with its tokens as much") {
  constexpr double gib = 1024.0 * 1024 * 1024;
  // Measured are about 0.45 GiB more at all sizes. We take it that these are buffers of its communicator: plans know
  // those of whole programs, which have several.
  for (const auto& [tokens, published] : {std::pair{4096, 2.9}, {8192, 3.2}, {16384, 4.0}, {32768, 5.7}})
    CHECK(layer_bytes(tokens) / gib == Approx(published - 0.45).margin(0.17));
  // Rounded to 0.1; planned is a tenth more.
  CHECK(layer_bytes(32768) - layer_bytes(4096) == Approx(2.8 * gib).epsilon(0.12));
}

}  // namespace llmtrain::test
