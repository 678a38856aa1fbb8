// SPDX-License-Identifier: Apache-2.0
#include "core/residency/residency_check.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/residency/access_sequence.h"

namespace llmtrain::test {
namespace {

// A weight is read in a forward, which makes an activation, and in a backward; the device updates it. An embedding of
// the same size is read between.
AccessSequence step() {
  AccessSequence sequence;
  sequence.tensors = {{"weight", 4, true}, {"activation", 3, false}, {"embedding", 4, true}};
  sequence.tasks = {{{{0, Access::read, false}, {1, Access::make, false}}, 1, TaskPlace::device},
                    {{{2, Access::read, false}}, 0, TaskPlace::device},
                    {{{0, Access::change, false}, {1, Access::read, true}}, 1, TaskPlace::device}};
  return sequence;
}

// Within 8 bytes: the weight makes room for the embedding, which makes room for it.
ResidencyPlan good_plan() {
  ResidencyPlan plan;
  plan.tasks.resize(3);
  plan.tasks[0].before = {{MoveKind::fetch, 0}};
  plan.tasks[1].before = {{MoveKind::release, 0}, {MoveKind::fetch, 2}};
  plan.tasks[2].before = {{MoveKind::release, 2}, {MoveKind::fetch, 0}};
  plan.after = {{MoveKind::write_back, 0}};
  plan.end = {{0, false}};
  return plan;
}

// What the check says of the good plan with a change, and where.
std::string fault(const std::function<void(ResidencyPlan&)>& change, std::int64_t budget = 8,
                  const AccessSequence& sequence = step()) {
  ResidencyPlan plan = good_plan();
  change(plan);
  try {
    check_residency(sequence, plan, budget);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a plan's peak and traffic are counted by executing it") {
  const ResidencyOutcome outcome = check_residency(step(), good_plan(), 8);
  CHECK(outcome.peak_bytes == 8);
  CHECK(outcome.traffic.fetched == 12);
  CHECK(outcome.traffic.written_back == 4);
  CHECK(outcome.traffic.fetches == 3);
  CHECK(outcome.traffic.write_backs == 1);
}

TEST_CASE("each broken rule of a plan is found where it is broken") {
  using Catch::Matchers::Contains;
  using Catch::Matchers::StartsWith;
  const auto nothing = [](ResidencyPlan&) {};
  CHECK(fault(nothing).empty());
  CHECK_THAT(fault(nothing, 7), StartsWith("residency: task 0") && Contains("8 bytes exceed 7"));
  CHECK_THAT(fault([](ResidencyPlan& plan) { plan.tasks[0].before.clear(); }),
             StartsWith("residency: task 0, tensor 0 weight") && Contains("used where it is not"));
  CHECK_THAT(fault([](ResidencyPlan& plan) { std::swap(plan.tasks[1].before[0], plan.tasks[1].before[1]); }),
             StartsWith("residency: task 1") && Contains("exceed"));
  CHECK_THAT(fault([](ResidencyPlan& plan) {
               plan.tasks[2].before.push_back({MoveKind::fetch, 0});
             }),
             StartsWith("residency: task 2") && Contains("although it is there"));
  CHECK_THAT(fault([](ResidencyPlan& plan) {
               plan.tasks[1].before.push_back({MoveKind::release, 1});
             }),
             StartsWith("residency: task 1, tensor 1 activation") && Contains("only copy"));
  CHECK_THAT(fault([](ResidencyPlan& plan) {
               plan.tasks[1].before.push_back({MoveKind::fetch, 1});
             }),
             Contains("although it is there"));
  CHECK_THAT(fault([](ResidencyPlan& plan) {
               plan.after = {{MoveKind::release, 0}};
               plan.end.clear();
             }),
             StartsWith("residency: task 3, tensor 0 weight") && Contains("only copy"));
  CHECK_THAT(fault([](ResidencyPlan& plan) { plan.after.clear(); }), Contains("as clean as"));
  CHECK_THAT(fault([](ResidencyPlan& plan) { plan.end.clear(); }), Contains("where the plan leaves it"));
  CHECK_THAT(fault([](ResidencyPlan& plan) {
               plan.tasks[0].beside = {{MoveKind::release, 0}};
             }),
             StartsWith("residency: task 0") && Contains("released while it is in use"));
  CHECK_THAT(fault([](ResidencyPlan& plan) {
               plan.tasks[2].beside = {{MoveKind::write_back, 0}};
             }),
             StartsWith("residency: task 2") && Contains("written back while it is in use"));
  CHECK_THAT(fault([](ResidencyPlan& plan) {
               plan.tasks[1].before.push_back({MoveKind::write_back, 0});
             }),
             StartsWith("residency: task 1") && Contains("written back although it is not there"));
  CHECK_THAT(fault([](ResidencyPlan& plan) {
               plan.start = {{0, true}};
               plan.tasks[0].before.clear();
             }),
             StartsWith("residency: task 1, tensor 0 weight") && Contains("only copy"));
  CHECK_THAT(fault([](ResidencyPlan& plan) { plan.tasks.pop_back(); }), Contains("other tasks"));
}

TEST_CASE("working memory counts beside what is fetched meanwhile") {
  // With 9 bytes a fetch beside the second task would fit but for its working memory.
  AccessSequence sequence = step();
  const auto beside = [](ResidencyPlan& plan) {
    plan.tasks[1].before = {{MoveKind::release, 0}, {MoveKind::fetch, 2}};
    plan.tasks[1].beside = {{MoveKind::fetch, 0}};
    plan.tasks[2].before = {{MoveKind::release, 2}};
  };
  CHECK(fault(beside, 11, sequence).empty());
  sequence.tasks[1].working_bytes = 1;
  CHECK_THAT(fault(beside, 11, sequence), Catch::Matchers::Contains("12 bytes exceed 11"));
}

TEST_CASE("the host writes nothing of which the device has a copy, and reads no old one") {
  AccessSequence sequence;
  sequence.tensors = {{"weight", 4, true}, {"gradient", 2, false}};
  sequence.tasks = {{{{0, Access::read, false}, {1, Access::make, false}}, 0, TaskPlace::device},
                    {{{1, Access::read, true}, {0, Access::change, false}}, 0, TaskPlace::host}};
  ResidencyPlan plan;
  plan.tasks.resize(2);
  plan.tasks[0].before = {{MoveKind::fetch, 0}};
  plan.tasks[1].before = {{MoveKind::write_back, 1}, {MoveKind::release, 0}};
  CHECK(check_residency(sequence, plan, 6).traffic.bytes() == 6);
  ResidencyPlan kept = plan;
  kept.tasks[1].before.pop_back();
  CHECK_THROWS_WITH(check_residency(sequence, kept, 6), Catch::Matchers::Contains("while the device has it"));
  ResidencyPlan unread = plan;
  unread.tasks[1].before.erase(unread.tasks[1].before.begin());
  CHECK_THROWS_WITH(check_residency(sequence, unread, 6), Catch::Matchers::Contains("used where it is not"));
}

}  // namespace llmtrain::test
