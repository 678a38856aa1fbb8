// SPDX-License-Identifier: Apache-2.0
// A step that replays an uneven routing does what is planned of its busiest rank.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "parallel/run/metrics_log.h"
#include "tests/parallel/engine/planned/planned_run.h"

namespace llmtrain::test {
namespace {

// Every expert has its tokens of a step to one, and a micro-batch its part of them to a row or two of 64.
constexpr double to_rows = 0.02;

// Eight experts in the last of four layers: in a plan each layer's busiest rank sends, and in a run of uneven layers
// these are several ranks.
Overrides with_routing(const std::string& routing) {
  return {R"(model.moe={"experts": 8, "top_k": 2, "every": 4, "capacity_factor": 0, "ffn_hidden_size": 96})", routing};
}

std::string trace_of(const std::filesystem::path& file) { return "model.moe.routing_trace=\"" + file.string() + "\""; }

// What the routers of a run choose in its first step, as the run writes it.
std::filesystem::path record(const TrainingSetting& setting) {
  const Recipe recipe = recipe_of(setting, {1, with_routing("log.routing=true")});
  MetricsLog log(setting.directory().path(), {.directory = "", .tensorboard = false, .routing = true}, 0);
  LoneTrainer trainer(recipe);
  log.write_routing(1, trainer.step().chosen);
  return setting.directory().path() / "routing.jsonl";
}

}  // namespace

TEST_CASE("the busiest rank of a skewed routing does what is planned") {
  const TrainingSetting setting;
  const std::string zipf =
      R"(model.moe={"experts": 8, "top_k": 2, "capacity_factor": 0, "ffn_hidden_size": 96, "routing_zipf": 1.2})";
  check_skewed(setting, {2, {zipf, "parallel.expert=2"}}, to_rows);
  check_skewed(setting, {4, {zipf, "parallel.expert=4", "parallel.zero_stage=1"}}, to_rows);
  check_skewed(setting, {4, {zipf, "parallel.expert=2", "parallel.tensor=2"}}, to_rows);
  check_skewed(setting, {2, {zipf, "parallel.expert=2", "model.moe.capacity_factor=1.5"}}, to_rows);
  // Through the ranks that have the place of the busiest on their nodes.
  const Overrides relayed{"parallel.expert_all_to_all=\"hierarchical\"", "cluster.nodes=2"};
  const Overrides two_a_node = Overrides{zipf, "parallel.expert=4", "cluster.devices_per_node=2"} + relayed;
  check_skewed(setting, {4, two_a_node}, to_rows);
  check_skewed(setting, {4, two_a_node + Overrides{"parallel.expert_overlap=2"}}, to_rows);
  const Overrides four_a_node = Overrides{zipf, "cluster.devices_per_node=4", "batch.global=16"} + relayed;
  check_skewed(setting, {8, four_a_node + Overrides{"parallel.expert=8"}}, to_rows);
  check_skewed(setting, {8, four_a_node + Overrides{"parallel.expert=4", "parallel.tensor=2"}}, to_rows);
}

TEST_CASE("so does that of a recorded step that is replayed") {
  const TrainingSetting setting;
  const Overrides recorded = with_routing(trace_of(record(setting)));
  check_skewed(setting, {4, recorded + Overrides{"parallel.expert=4"}}, to_rows);
  check_skewed(setting, {4, recorded + Overrides{"parallel.expert=2", "parallel.tensor=2"}}, to_rows);
  check_skewed(setting,
               {4, recorded + Overrides{"parallel.expert=4", "parallel.expert_all_to_all=\"hierarchical\"",
                                        "cluster.nodes=2", "cluster.devices_per_node=2"}},
               to_rows);
}

// The step has 8 · 32 tokens, its micro-batches 32: of these every expert has a whole number.
TEST_CASE("where micro-batches have whole parts of the recorded counts, a plan of them is exact") {
  const TrainingSetting setting;
  const auto file = setting.directory().path() / "routing.jsonl";
  write_file_atomically(file, R"({"step": 1, "layer": 3, "chosen": [128, 96, 64, 64, 48, 48, 40, 24]})");
  const Overrides replayed = with_routing(trace_of(file));
  check_skewed(setting, {2, replayed + Overrides{"parallel.expert=2"}}, 0);
  check_skewed(setting, {4, replayed + Overrides{"parallel.expert=4", "parallel.expert_overlap=2"}}, 0);
  check_skewed(setting, {8, replayed + Overrides{"parallel.expert=8", "parallel.zero_stage=1"}}, 0);
  check_skewed(setting,
               {4, replayed + Overrides{"parallel.expert=4", "parallel.expert_all_to_all=\"hierarchical\"",
                                        "cluster.nodes=2", "cluster.devices_per_node=2"}},
               0);
}

}  // namespace llmtrain::test
