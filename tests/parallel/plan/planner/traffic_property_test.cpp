// SPDX-License-Identifier: Apache-2.0
#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "parallel/plan/cost/step_cost_model.h"
#include "planner_case.h"
#include "random_recipe.h"

namespace llmtrain::test {
namespace {

// The communication table and the simulated step are made of the same transfers: what one adds up by rank is what the
// other's streams did.

bool is_near(double left, double right) { return std::abs(left - right) <= 1e-9 * std::max(left, right) + 1e-15; }

// Seconds that the instructions of each stream of a pipeline rank take on their own, by operation: sharing wires makes
// them longer.
using Busy = std::map<std::pair<Stream, Operation>, double>;

Busy busy_of(const Plan& plan, std::int32_t rank) {
  Busy busy;
  for (const TimelineEntry& entry : plan.simulation.timeline) {
    if (entry.rank != rank) continue;
    const auto& instructions = plan.layout->schedule().ranks[static_cast<std::size_t>(rank)].instructions;
    const Operation operation = instructions[static_cast<std::size_t>(entry.instruction)].operation;
    busy[{entry.stream, operation}] += entry.seconds_alone;
    RC_ASSERT(entry.end_seconds - entry.start_seconds >= entry.seconds_alone * (1 - 1e-9) - 1e-15);
  }
  return busy;
}

// The sum over the rows of a rank's table that `counts` chooses.
template <class Counts>
double sum_of(const std::vector<CommunicationEntry>& rows, double CommunicationEntry::*member, Counts counts) {
  double sum = 0;
  for (const CommunicationEntry& row : rows)
    if (counts(row)) sum += row.*member;
  return sum;
}

bool is_weights(const CommunicationEntry& row) { return row.tensors.ends_with("weights"); }
bool is_state(const CommunicationEntry& row) { return row.purpose == Purpose::data_parallel; }
// The optimizer sums these, outside of the passes.
bool is_of_optimizer(const CommunicationEntry& row) {
  return row.tensors == "norm gradients" || row.tensors == "key and value gradients" || row.tensors == "tied embedding";
}
bool is_transfer(const CommunicationEntry& row) { return row.purpose == Purpose::pipeline && !is_of_optimizer(row); }
bool is_inside_passes(const CommunicationEntry& row) {
  return row.purpose == Purpose::tensor_parallel || row.purpose == Purpose::context || row.purpose == Purpose::expert;
}

void judge_rank(const Plan& plan, const std::vector<CommunicationEntry>& rows, std::int32_t rank) {
  Busy busy = busy_of(plan, rank);
  const auto seconds = &CommunicationEntry::seconds;
  const double gathers = busy[{Stream::data, Operation::gather_weights}];
  const double reductions = busy[{Stream::data, Operation::reduce_gradients}];
  RC_ASSERT(is_near(sum_of(rows, seconds, is_weights), gathers));
  RC_ASSERT(
      is_near(sum_of(rows, seconds, [](const auto& row) { return is_state(row) && !is_weights(row); }), reductions));
  const double sends =
      busy[{Stream::transfer, Operation::send_activation}] + busy[{Stream::transfer, Operation::send_gradient}];
  RC_ASSERT(is_near(sum_of(rows, seconds, is_transfer), sends));
  const double waited = sum_of(rows, &CommunicationEntry::exposed_seconds,
                               [](const auto& row) { return is_inside_passes(row) && !is_of_optimizer(row); });
  const RankSimulation& simulated = plan.simulation.ranks[static_cast<std::size_t>(rank)];
  RC_ASSERT(is_near(waited, simulated.communication_seconds));
  RC_ASSERT(sum_of(rows, seconds, is_of_optimizer) <= simulated.optimizer_seconds * (1 + 1e-9));
}

TEST_CASE("a rank's communication table and its simulated streams agree") {
  CHECK(rc::check([] {
    const auto plan = plan_if_legal(random_layout(), Timeline::record);
    if (!plan) return;
    const ClusterProfile profile = share_devices(profile_of(plan->report.recipe), plan->layout->mesh());
    const auto ranks = static_cast<std::int32_t>(plan->layout->mesh().pipeline);
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      judge_rank(*plan,
                 communication_of({plan->layout->partition(), profile}, plan->layout->schedule(),
                                  static_cast<std::size_t>(rank)),
                 rank);
  }));
}

TEST_CASE("each row of a plan's table is that of the rank that sends most there") {
  CHECK(rc::check([] {
    const auto plan = plan_if_legal(random_layout());
    if (!plan) return;
    const ClusterProfile profile = share_devices(profile_of(plan->report.recipe), plan->layout->mesh());
    const auto name_of = [](const CommunicationEntry& row) {
      return std::tuple(row.purpose, row.collective, row.tensors, row.ranks);
    };
    std::map<std::tuple<Purpose, Collective, std::string, std::int64_t>, CommunicationEntry> most;
    for (std::int64_t rank = 0; rank < plan->layout->mesh().pipeline; ++rank) {
      for (const CommunicationEntry& row : communication_of({plan->layout->partition(), profile},
                                                            plan->layout->schedule(), static_cast<std::size_t>(rank))) {
        CommunicationEntry& known = most[name_of(row)];
        if (row.bytes_per_rank_per_step > known.bytes_per_rank_per_step) known = row;
      }
    }
    RC_ASSERT(most.size() == plan->report.communication.size());
    for (const CommunicationEntry& row : plan->report.communication) {
      RC_ASSERT(row.bytes_per_rank_per_step == most[name_of(row)].bytes_per_rank_per_step);
      RC_ASSERT(row.seconds == most[name_of(row)].seconds);
    }
  }));
}

}  // namespace
}  // namespace llmtrain::test
