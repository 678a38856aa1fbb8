// SPDX-License-Identifier: Apache-2.0
#include "parallel/schedule/schedule.h"

#include <catch2/catch.hpp>
#include <functional>
#include <utility>

#include "core/base/error.h"
#include "tests/parallel/plan/schedule_text.h"

namespace llmtrain {
namespace {

using Kind = PipelineSchedule;
using List = std::vector<Instruction>;

std::string refusal(const Schedule& schedule, std::int32_t buffers = 16) {
  try {
    check(schedule, buffers);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::internal_error);
    const std::string prefix = "the schedule cannot run: ";
    const std::string message = error.what();
    return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
  }
  return "accepted";
}

Schedule two_ranks(std::int32_t zero_stage, std::int32_t loops = 1, std::int32_t micro_batches = 2) {
  return make_schedule({.kind = Kind::breadth_first,
                        .pipeline = 2,
                        .loops = loops,
                        .micro_batches = micro_batches,
                        .zero_stage = zero_stage,
                        .reduces = true});
}

// The position of the instruction in the rank's list.
List::iterator find(Schedule& schedule, std::size_t rank, const std::string& text) {
  List& list = schedule.ranks[rank].instructions;
  for (auto place = list.begin(); place != list.end(); ++place)
    if (to_text(*place) == text) return place;
  FAIL("no instruction " << text);
  return list.end();
}

Schedule without(Schedule schedule, std::size_t rank, const std::string& text) {
  const auto place = find(schedule, rank, text);
  schedule.ranks[rank].instructions.erase(place);
  return schedule;
}

Schedule twice(Schedule schedule, std::size_t rank, const std::string& text) {
  const auto place = find(schedule, rank, text);
  const Instruction copy = *place;
  schedule.ranks[rank].instructions.insert(place + 1, copy);
  return schedule;
}

Schedule swapped(Schedule schedule, std::size_t rank, const std::string& a, const std::string& b) {
  std::iter_swap(find(schedule, rank, a), find(schedule, rank, b));
  return schedule;
}

Schedule changed(Schedule schedule, std::size_t rank, const std::string& text,
                 const std::function<void(Instruction&)>& change) {
  change(*find(schedule, rank, text));
  return schedule;
}

Schedule at_end(Schedule schedule, std::size_t rank, const Instruction& instruction) {
  schedule.ranks[rank].instructions.push_back(instruction);
  return schedule;
}

TEST_CASE("two ranks with one stage each: the schedule that the cases below break") {
  CHECK(to_text(two_ranks(0)) ==
        "Rank 0\n"
        "Forward stage 0 micro 0\n"
        "SendActivation stage 0 micro 0 peer 1\n"
        "Forward stage 0 micro 1\n"
        "SendActivation stage 0 micro 1 peer 1\n"
        "RecvGradient stage 0 micro 0 peer 1\n"
        "Backward stage 0 micro 0\n"
        "RecvGradient stage 0 micro 1 peer 1\n"
        "Backward stage 0 micro 1\n"
        "ReduceGradients stage 0\n"
        "OptimizerStep\n"
        "Rank 1\n"
        "RecvActivation stage 1 micro 0 peer 0\n"
        "Forward stage 1 micro 0\n"
        "RecvActivation stage 1 micro 1 peer 0\n"
        "Forward stage 1 micro 1\n"
        "Backward stage 1 micro 0\n"
        "SendGradient stage 1 micro 0 peer 0\n"
        "Backward stage 1 micro 1\n"
        "SendGradient stage 1 micro 1 peer 0\n"
        "ReduceGradients stage 1\n"
        "OptimizerStep\n");
  for (const std::int32_t zero_stage : {0, 1, 2, 3}) CHECK(refusal(two_ranks(zero_stage)) == "accepted");
}

TEST_CASE("transfers that do not match") {
  const Schedule good = two_ranks(0);
  CHECK(refusal(without(good, 0, "SendActivation stage 0 micro 0 peer 1")) ==
        "rank 1, instruction 0 \"RecvActivation stage 1 micro 0 peer 0\": the next tensor from rank 0 is for stage 1 "
        "micro 1");
  CHECK(refusal(without(good, 0, "SendActivation stage 0 micro 1 peer 1")) ==
        "rank 0, instruction 3 \"RecvGradient stage 0 micro 0 peer 1\": deadlock: it waits for rank 1 to send, which "
        "waits at instruction 2 \"RecvActivation stage 1 micro 1 peer 0\", with 16 buffers per channel");
  CHECK(refusal(without(good, 1, "SendGradient stage 1 micro 1 peer 0")) ==
        "rank 1, instruction 8 \"OptimizerStep\": the gradient of stage 1 micro 1 was not sent");
  CHECK(
      refusal(without(good, 1, "RecvActivation stage 1 micro 0 peer 0")) ==
      "rank 1, instruction 0 \"Forward stage 1 micro 0\": its input, the activation of the previous stage, is missing");
  CHECK(refusal(without(good, 0, "RecvGradient stage 0 micro 0 peer 1")) ==
        "rank 0, instruction 4 \"Backward stage 0 micro 0\": its input, the gradient of the next stage, is missing");
  CHECK(refusal(swapped(good, 1, "RecvActivation stage 1 micro 0 peer 0", "RecvActivation stage 1 micro 1 peer 0")) ==
        "rank 1, instruction 0 \"RecvActivation stage 1 micro 1 peer 0\": the next tensor from rank 0 is for stage 1 "
        "micro 0");
  CHECK(refusal(swapped(good, 0, "Forward stage 0 micro 0", "SendActivation stage 0 micro 0 peer 1")) ==
        "rank 0, instruction 0 \"SendActivation stage 0 micro 0 peer 1\": the tensor has not been computed yet");
  CHECK(refusal(twice(good, 0, "SendActivation stage 0 micro 1 peer 1")) ==
        "rank 0, instruction 4 \"SendActivation stage 0 micro 1 peer 1\": the tensor was sent already");
  CHECK(refusal(at_end(good, 1, {.operation = Operation::receive_activation, .stage = 1, .micro = 1, .peer = 0})) ==
        "rank 1, instruction 10 \"RecvActivation stage 1 micro 1 peer 0\": rank 0 never sends the tensor");
}

TEST_CASE("fields that do not exist") {
  const Schedule good = two_ranks(0);
  const std::string send = "SendActivation stage 0 micro 0 peer 1";
  CHECK(refusal(changed(good, 0, send, [](Instruction& i) { i.peer = 0; })) ==
        "rank 0, instruction 1 \"SendActivation stage 0 micro 0 peer 0\": the stage's neighbour is on rank 1");
  CHECK(refusal(changed(good, 0, send, [](Instruction& i) { i.stage = 1; })) ==
        "rank 0, instruction 1 \"SendActivation stage 1 micro 0 peer 1\": the stage is not on this rank");
  CHECK(refusal(changed(good, 0, send, [](Instruction& i) { i.micro = 2; })) ==
        "rank 0, instruction 1 \"SendActivation stage 0 micro 2 peer 1\": there is no such micro-batch");
  CHECK(refusal(changed(good, 0, "ReduceGradients stage 0", [](Instruction& i) { i.micro = 0; })) ==
        "rank 0, instruction 8 \"ReduceGradients stage 0 micro 0\": there is no such micro-batch");
  CHECK(refusal(changed(good, 0, "Forward stage 0 micro 0", [](Instruction& i) { i.peer = 1; })) ==
        "rank 0, instruction 0 \"Forward stage 0 micro 0 peer 1\": it has no peer");
  CHECK(refusal(changed(good, 0, "OptimizerStep", [](Instruction& i) { i.stage = 0; })) ==
        "rank 0, instruction 9 \"OptimizerStep stage 0\": all stages are updated at once");
  CHECK(refusal(changed(good, 0, "OptimizerStep", [](Instruction& i) { i.micro = 0; })) ==
        "rank 0, instruction 9 \"OptimizerStep micro 0\": it applies to the whole rank");
  CHECK(refusal(changed(good, 1, "Backward stage 1 micro 0", [](Instruction& i) {
          i = {.operation = Operation::send_activation, .stage = 1, .micro = 0, .peer = 0};
        })) == "rank 1, instruction 4 \"SendActivation stage 1 micro 0 peer 0\": the last stage sends no activations");
}

TEST_CASE("passes that are missing, duplicated or out of order") {
  const Schedule good = two_ranks(0);
  CHECK(refusal(without(good, 0, "Forward stage 0 micro 1")) ==
        "rank 0, instruction 2 \"SendActivation stage 0 micro 1 peer 1\": the tensor has not been computed yet");
  CHECK(refusal(without(good, 0, "Backward stage 0 micro 1")) ==
        "rank 0, instruction 7 \"ReduceGradients stage 0\": a reduction follows 2 backwards of the stage, and 1 ran "
        "since "
        "the last");
  CHECK(refusal(twice(good, 1, "Forward stage 1 micro 0")) ==
        "rank 1, instruction 2 \"Forward stage 1 micro 0\": the stage has already run this micro-batch forward");
  CHECK(
      refusal(twice(good, 1, "Backward stage 1 micro 1")) ==
      "rank 1, instruction 7 \"Backward stage 1 micro 1\": the saved activations were used up by an earlier Backward");
  CHECK(refusal(swapped(good, 1, "Forward stage 1 micro 1", "Backward stage 1 micro 1")) ==
        "rank 1, instruction 3 \"Backward stage 1 micro 1\": there are no saved activations: its Forward has not run");
  CHECK(refusal(swapped(good, 1, "Backward stage 1 micro 0", "Backward stage 1 micro 1")) ==
        "rank 1, instruction 4 \"Backward stage 1 micro 1\": the backwards of a stage run in the order of the "
        "micro-batches, and micro-batch 0 is next");
}

TEST_CASE("a step that is missing, duplicated or too early") {
  const Schedule good = two_ranks(0);
  CHECK(refusal(without(good, 1, "OptimizerStep")) == "rank 1, at its end: OptimizerStep is missing");
  CHECK(refusal(twice(good, 1, "OptimizerStep")) ==
        "rank 1, instruction 10 \"OptimizerStep\": there must be exactly one OptimizerStep");
  CHECK(refusal(swapped(good, 1, "OptimizerStep", "ReduceGradients stage 1")) ==
        "rank 1, instruction 8 \"OptimizerStep\": the gradients of stage 1 are not reduced");
  CHECK(refusal(swapped(good, 0, "OptimizerStep", "Backward stage 0 micro 1")) ==
        "rank 0, instruction 7 \"OptimizerStep\": stage 0 has not run every micro-batch forward and backward");
}

TEST_CASE("gradients that are not reduced, or at the wrong time") {
  CHECK(refusal(without(two_ranks(0), 0, "ReduceGradients stage 0")) ==
        "rank 0, instruction 8 \"OptimizerStep\": the gradients of stage 0 are not reduced");
  CHECK(refusal(twice(two_ranks(0), 0, "ReduceGradients stage 0")) ==
        "rank 0, instruction 9 \"ReduceGradients stage 0\": a reduction follows 2 backwards of the stage, and 0 ran "
        "since "
        "the last");
  const Schedule fsdp = make_schedule(
      {.kind = Kind::interleaved, .pipeline = 1, .loops = 2, .micro_batches = 2, .zero_stage = 2, .reduces = true});
  CHECK(refusal(without(fsdp, 0, "ReduceGradients stage 1")) ==
        "rank 0, instruction 7 \"Backward stage 1 micro 1\": the stage's gradients of the previous micro-batches "
        "must be reduced first");
  Schedule alone = two_ranks(0);
  alone.shape.reduces = false;
  CHECK(refusal(alone) ==
        "rank 1, instruction 8 \"ReduceGradients stage 1\": there are no other ranks to reduce gradients with");
}

TEST_CASE("weights that are not gathered, not freed, or too many") {
  const Schedule good = two_ranks(3, 3, 1);
  REQUIRE(refusal(good) == "accepted");
  CHECK(refusal(without(good, 0, "GatherWeights stage 0")) ==
        "rank 0, instruction 1 \"Forward stage 0 micro 0\": the stage's weights are not gathered");
  CHECK(
      refusal(without(good, 0, "FreeWeights stage 0")) ==
      "rank 0, instruction 4 \"GatherWeights stage 4\": two other stages are gathered, and there are only two buffers");
  CHECK(refusal(without(good, 0, "FreeWeights stage 4")) ==
        "rank 0, instruction 13 \"GatherWeights stage 4\": the stage's weights are gathered already");
  CHECK(refusal(twice(good, 0, "FreeWeights stage 0")) ==
        "rank 0, instruction 5 \"FreeWeights stage 0\": the stage's weights are not gathered");
  CHECK(refusal(swapped(good, 0, "Forward stage 0 micro 0", "FreeWeights stage 0")) ==
        "rank 0, instruction 2 \"FreeWeights stage 0\": the stage's weights were gathered but not used");
  CHECK(refusal(without(two_ranks(1), 0, "GatherWeights stage 0")) ==
        "rank 0, at its end: the updated weights of stage 0 are not gathered after OptimizerStep");
  CHECK(refusal(twice(two_ranks(2), 0, "GatherWeights stage 0")) ==
        "rank 0, instruction 11 \"GatherWeights stage 0\": the stage's updated weights were gathered already");
  CHECK(refusal(swapped(two_ranks(1), 0, "GatherWeights stage 0", "OptimizerStep")) ==
        "rank 0, instruction 9 \"GatherWeights stage 0\": at ZeRO-1 and -2 weights are gathered only after "
        "OptimizerStep");
  CHECK(refusal(at_end(two_ranks(0), 0, {.operation = Operation::gather_weights, .stage = 0})) ==
        "rank 0, instruction 10 \"GatherWeights stage 0\": nothing is sharded, so there is nothing to gather");
  CHECK(refusal(at_end(two_ranks(3), 0, {.operation = Operation::gather_weights, .stage = 0})) ==
        "rank 0, instruction 14 \"GatherWeights stage 0\": at ZeRO-3 nothing is gathered after OptimizerStep");
  CHECK(refusal(at_end(two_ranks(1), 0, {.operation = Operation::free_weights, .stage = 0})) ==
        "rank 0, instruction 11 \"FreeWeights stage 0\": weights are freed at ZeRO-3 only");
}

TEST_CASE("weights that are held while the optimizer changes them") {
  const Schedule good = make_schedule({.micro_batches = 1, .zero_stage = 3, .reduces = true});
  Schedule held = good;
  held.ranks[0].instructions.erase(held.ranks[0].instructions.end() - 3);
  REQUIRE(to_text(good.ranks[0].instructions.end()[-3]) == "FreeWeights stage 0");
  CHECK(refusal(held) == "rank 0, instruction 6 \"OptimizerStep\": the weights of stage 0 are not freed");
}

TEST_CASE("ranks that wait for each other") {
  Schedule schedule = two_ranks(0, 2, 1);
  List& first = schedule.ranks[0].instructions;
  // Stage 2 receives from stage 1 what cannot be computed before stage 0 has sent.
  std::iter_swap(find(schedule, 0, "RecvActivation stage 2 micro 0 peer 1"), first.begin());
  CHECK(refusal(schedule) ==
        "rank 0, instruction 0 \"RecvActivation stage 2 micro 0 peer 1\": deadlock: it waits for rank 1 to send, which "
        "waits at instruction 0 \"RecvActivation stage 1 micro 0 peer 0\", with 16 buffers per channel");
}

TEST_CASE("breadth-first needs buffers for the micro-batches in flight, depth-first for one") {
  const Schedule breadth_first = two_ranks(0, 2, 8);
  CHECK(refusal(breadth_first, 8) == "accepted");
  CHECK_THAT(refusal(breadth_first, 1),
             Catch::StartsWith("rank 0, instruction 7 \"SendActivation stage 0 micro 3 peer "
                               "1\": deadlock: it waits for rank 1 to receive, which waits at "
                               "instruction 5 \"SendActivation stage 1 micro 1 peer 0\", with "
                               "1 buffer per channel"));
  const Schedule depth_first = make_schedule(
      {.kind = Kind::interleaved, .pipeline = 2, .loops = 2, .micro_batches = 8, .zero_stage = 0, .reduces = true});
  CHECK(refusal(depth_first, 1) == "accepted");
}

TEST_CASE("a check of meaningless input") {
  Schedule schedule = two_ranks(0);
  CHECK(refusal(schedule, 0) == "a channel between ranks must hold at least 1 tensor");
  schedule.ranks.pop_back();
  CHECK(refusal(schedule) == "it has 1 ranks instead of 2");
  Schedule one = make_schedule({.micro_batches = 1});
  one.ranks[0].instructions[0] = {.operation = Operation::send_activation, .stage = 0, .micro = 0, .peer = 0};
  CHECK(refusal(one) ==
        "rank 0, instruction 0 \"SendActivation stage 0 micro 0 peer 0\": a pipeline of one rank exchanges no tensors");
}

}  // namespace
}  // namespace llmtrain
