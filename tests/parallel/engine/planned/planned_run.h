// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/engine/trainer.h"
#include "parallel/plan/planner/planner.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {

// A model of four layers, which ZeRO splits unevenly into 11 parts of one size.
Recipe recipe_of(const TrainingSetting& setting, const RankCase& layout);
Plan plan_of(const Recipe& recipe);
Plan plan_of(std::shared_ptr<const Layout> layout);

// Bytes by "purpose collective".
using Traffic = std::map<std::string, double>;
Traffic traffic_of(const Plan& plan);

// What one rank did in two steps.
struct RankRun {
  std::int64_t pipeline_rank = 0;
  std::vector<std::string> executed;  // by step
  std::vector<Traffic> traffic;
  ShardedParameters::Bytes kept;
  std::int64_t peak = 0;
  std::vector<std::int64_t> disk_traffic;  // bytes read and written, by step
  std::vector<std::int64_t> swapped;       // bytes of states that came for updates and went back, by step
  std::vector<std::int64_t> evicted;       // bytes of gradients that left for the host, by step
};
// `prepare` is called on every rank before the first step; `make`: the blocks' modules.
std::vector<RankRun> run_ranks(
    const Plan& plan, const std::function<void(Trainer&)>& prepare = [](Trainer&) {},
    const BlockFactory& make = make_block);

// Checks a rank's memory: what it keeps and its peak.
void check_memory(const Plan& plan, const RankRun& run);
// Runs a layout and checks the instructions, the bytes and the memory of every rank.
void check_plan(const Plan& plan, const BlockFactory& make = make_block);
void check_layout(const TrainingSetting& setting, const RankCase& layout);
// Checks a layout that replays a routing in which ranks differ: the bytes of what sends most, to `tolerance` or where
// that is 0 to the byte, and the memory of the fullest rank, which is the one that the plan states.
void check_skewed(const TrainingSetting& setting, const RankCase& layout, double tolerance);

}  // namespace llmtrain::test
