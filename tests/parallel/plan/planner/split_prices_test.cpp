// SPDX-License-Identifier: Apache-2.0
// What is planned where a recipe leaves the split of experts open.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "parallel/plan/planner/planner.h"
#include "tests/parallel/plan/planner/planner_case.h"

namespace llmtrain::test {
namespace {

// 16 experts, whose states are cut into eight slices within a node.
PlanReport report_of_split(const std::string& split, const std::vector<Override>& batch) {
  std::vector<Override> all{"model.moe={\"experts\": 16, \"top_k\": 2, \"ffn_hidden_size\": 2048}",
                            "cluster.nodes=1",
                            "cluster.profile=a100-80gb",
                            "precision.compute=bf16",
                            "batch.global=64",
                            "parallel.zero_stage=3",
                            "parallel.expert_slices=8",
                            "parallel.expert_tensor=" + split};
  all.insert(all.end(), batch.begin(), batch.end());
  const Recipe recipe = small_gpt(all);
  return make_plan(recipe, profile_of(recipe)).report;
}

}  // namespace

TEST_CASE("an open split is planned as fast as the fastest, and with the memory of each") {
  std::vector<std::int64_t> chosen;
  for (const std::vector<Override>& batch :
       {std::vector<Override>{"batch.micro=1", "batch.sequence_length=32"}, {"batch.micro=8"}}) {
    const PlanReport open = report_of_split("auto", batch);
    double fastest = std::numeric_limits<double>::infinity(), most = 0;
    for (const char* split : {"1", "2", "4", "8"}) {
      const PlanReport fixed = report_of_split(split, batch);
      fastest = std::min(fastest, fixed.step.seconds);
      most = std::max(most, fullest_rank(fixed).peak_bytes);
    }
    CHECK(open.step.seconds == Approx(fastest).epsilon(1e-4));
    CHECK(fullest_rank(open).peak_bytes >= most);
    CHECK(fullest_rank(open).peak_bytes <= 1.1 * most);
    chosen.push_back(open.mesh.expert_tensor);
  }
  // Few tokens are cheaper to move than weights, many are not.
  CHECK(chosen.front() > chosen.back());
}

}  // namespace llmtrain::test
