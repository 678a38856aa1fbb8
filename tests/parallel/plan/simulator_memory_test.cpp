// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/parallel/plan/simulator_case.h"

namespace llmtrain {
namespace {

using Kind = PipelineSchedule;
using Category = MemoryCategory;
using Event = MemoryEvent;

Simulation run(const ScheduleShape& shape, const CaseSeconds& seconds = {}) {
  return simulate(make_schedule(shape), equal_costs(shape, seconds), equal_memory(shape), Timeline::record);
}

// Bytes of the category after each change of it.
std::vector<double> course(const RankSimulation& rank, Category category) {
  std::vector<double> bytes;
  for (const MemorySample& sample : rank.memory)
    if (bytes.empty() || bytes.back() != sample.bytes[category]) bytes.push_back(sample.bytes[category]);
  return bytes;
}

TEST_CASE("activations are stored from forward to backward, workspaces during their pass") {
  const Simulation simulation = run({.micro_batches = 2}, {.optimizer = 1});
  const RankSimulation& rank = simulation.ranks[0];
  CHECK(course(rank, Category::activations) == std::vector<double>{16, 32, 16, 0});
  CHECK(course(rank, Category::buffers) == std::vector<double>{1, 2, 8, 0});
  CHECK(course(rank, Category::weights) == std::vector<double>{4096});
  // At the first backward: two micro-batches and the workspace.
  CHECK(rank.peak_bytes == 65536 + 4096 + 8192 + 32 + 2);
  CHECK(rank.peak_instruction == 2);
  CHECK(rank.high_water[Category::buffers] == 8);
  CHECK(rank.high_water[Category::framework] == 65536);
  CHECK(rank.final_bytes.total() == 65536 + 4096 + 8192);
}

TEST_CASE("offloaded activations are on the host from forward to backward, beside the states there") {
  const auto peak = [](PipelineSchedule kind, std::int64_t micro_batches) {
    const ScheduleShape shape{.kind = kind, .micro_batches = static_cast<std::int32_t>(micro_batches)};
    StepMemory memory = equal_memory(shape);
    memory.stages[0].hold({Category::activations, 16, Event::forward_starts, Event::backward_ends, MemoryPlace::host});
    memory.stages[0].host_resident[Category::optimizer] = 1024;
    return simulate(make_schedule(shape), equal_costs(shape, {}), memory).ranks[0].host_peak_bytes;
  };
  CHECK(peak(Kind::gpipe, 4) == 1024 + 4 * 16);
  CHECK(peak(Kind::one_forward_one_backward, 4) == 1024 + 16);
  CHECK(run({.micro_batches = 2}).ranks[0].host_peak_bytes == 0);
}

TEST_CASE("what is kept for later micro-batches is held as often as they are in flight at once") {
  const auto kept = [](PipelineSchedule kind) {
    const ScheduleShape shape{.kind = kind, .pipeline = 2, .micro_batches = 4};
    StepMemory memory = equal_memory(shape);
    for (StageMemory& stage : memory.stages)
      stage.hold({.category = Category::master_weights,
                  .bytes = 16,
                  .begins = Event::forward_starts,
                  .ends = Event::backward_ends,
                  .is_kept = true});
    return simulate(make_schedule(shape), equal_costs(shape, {}), memory, Timeline::record).ranks;
  };
  CHECK(course(kept(Kind::gpipe)[0], Category::master_weights) == std::vector<double>{16, 32, 48, 64});
  CHECK(course(kept(Kind::one_forward_one_backward)[0], Category::master_weights) == std::vector<double>{16, 32});
  CHECK(kept(Kind::one_forward_one_backward)[1].final_bytes[Category::master_weights] == 16);
  CHECK(kept(Kind::gpipe)[1].peak_bytes == 65536 + 4096 + 8192 + 4 * (16 + 16) + 2 + 4);
}

TEST_CASE("two stages of a rank are resident together") {
  const Simulation simulation = run({.loops = 3, .micro_batches = 1});
  CHECK(simulation.ranks[0].final_bytes[Category::optimizer] == 3 * 8192);
}

TEST_CASE("a tensor exists from its transfer to the pass that uses it, and from its pass to the end of its transfer") {
  const Simulation simulation = run({.kind = Kind::gpipe, .pipeline = 2, .micro_batches = 1}, {.transfer = 0.5});
  // Rank 0: computed in F0 (0 to 1), sent until 1.5; the gradient is received from 4.5 on and used until 7.
  const auto& first = simulation.ranks[0].memory;
  const auto at = [&](double seconds) {
    double bytes = 0;
    for (const MemorySample& sample : first)
      if (sample.seconds <= seconds) bytes = sample.bytes[Category::communication];
    return bytes;
  };
  CHECK(at(0) == 4);
  CHECK(at(1.4) == 4);
  CHECK(at(1.5) == 0);
  CHECK(at(4.4) == 0);
  CHECK(at(4.5) == 4);
  CHECK(at(6.9) == 4);
  CHECK(at(7) == 0);
  // Rank 1: received from 1 on, used until 2.5; its gradient is computed from 2.5 on, sent until 5.
  CHECK(course(simulation.ranks[1], Category::communication) == std::vector<double>{0, 4, 0});
  CHECK(simulation.ranks[1].final_bytes[Category::communication] == 0);
}

TEST_CASE("ZeRO-3 holds two gathered stages, or one if the rank has one") {
  ScheduleShape shape{.loops = 4, .micro_batches = 2, .zero_stage = 3, .reduces = true};
  CHECK(run(shape, {.gather = 0.5}).ranks[0].high_water[Category::weights] == 4 * 4096 + 2 * 64);
  shape.loops = 1;
  CHECK(run(shape, {.gather = 0.5}).ranks[0].high_water[Category::weights] == 4096 + 64);
  shape.zero_stage = 1;
  CHECK(run(shape, {.gather = 0.5}).ranks[0].high_water[Category::weights] == 4096);
}

TEST_CASE("slices are joined beside those of the next stage, which are on their way already") {
  const ScheduleShape shape{.loops = 2, .micro_batches = 1, .zero_stage = 3, .reduces = true};
  StepMemory memory = equal_memory(shape);
  for (StageMemory& stage : memory.stages)
    stage.hold({Category::weights, 1024, Event::weights_are_joined, Event::weights_are_joined, MemoryPlace::device,
                Event::weights_are_gathered});
  for (const Timeline timeline : {Timeline::leave_out, Timeline::record}) {
    const Simulation simulation = simulate(make_schedule(shape), equal_costs(shape, {.gather = 0.5}), memory, timeline);
    CHECK(simulation.ranks[0].high_water[Category::weights] == 2 * 4096 + 2 * 64 + 1024);
    CHECK(simulation.ranks[0].final_bytes[Category::weights] == 2 * 4096);
  }
}

TEST_CASE("slices are joined before the gradients of theirs, where the head has begun those of their stage") {
  const ScheduleShape shape{.loops = 2, .micro_batches = 1, .zero_stage = 3, .reduces = true};
  const auto peak = [&](double gradients) {
    StepMemory memory = equal_memory(shape);
    memory.head_adds_to = 0;
    memory.stages[0].hold({Category::weights, 1024, Event::weights_are_joined_early, Event::weights_are_joined_early});
    memory.stages[0].hold(
        {Category::gradients, -gradients, Event::weights_are_joined_early, Event::weights_are_joined_early});
    return simulate(make_schedule(shape), equal_costs(shape, {.gather = 0.5}), memory).ranks[0];
  };
  // As B0 starts: weights of its stage alone, the activations of its forward, gradients of both stages.
  const double resident = 65536 + 2 * (4096 + 8192);
  CHECK(peak(0).peak_bytes == resident + 64 + 1024 + 16 + 2 * 32);
  CHECK(peak(8).peak_bytes == peak(0).peak_bytes - 8);
  CHECK(peak(8).high_water[Category::gradients] == 64);
  CHECK(peak(8).final_bytes.total() == resident);
}

TEST_CASE("full gradients exist from a group's first backward to the rank's next reduction") {
  const ScheduleShape shape{.loops = 2, .micro_batches = 2, .zero_stage = 2, .reduces = true};
  // B1 ends at 8 and its reduction at 11, B0 at 12 and its reduction at 15.
  const Simulation simulation = run(shape, {.reduce = 3});
  CHECK(course(simulation.ranks[0], Category::gradients) == std::vector<double>{0, 32, 64, 32, 0});
  ScheduleShape alone = shape;
  alone.reduces = false;
  CHECK(run(alone).ranks[0].high_water[Category::gradients] == 0);
}

TEST_CASE("the head's gradients exist from its forward on, with those of the previous micro-batch") {
  const ScheduleShape shape{
      .kind = Kind::interleaved, .loops = 2, .micro_batches = 2, .zero_stage = 2, .reduces = true};
  StepMemory memory = equal_memory(shape);
  const auto gradients = [&] {
    const Simulation simulation =
        simulate(make_schedule(shape), equal_costs(shape, {.reduce = 0.5}), memory, Timeline::record);
    return course(simulation.ranks[0], Category::gradients);
  };
  // F1 allocates those of stage 1, B0 additionally those of stage 0, R0 frees those of stage 1, F1 allocates them
  // again. When R1 frees those of stage 0 the next B0 allocates them again at once.
  CHECK(gradients() == std::vector<double>{0, 32, 64, 32, 64, 32, 0});
  // F1 allocates those of stage 0, B1 those of stage 1.
  memory.head_adds_to = 0;
  CHECK(gradients() == std::vector<double>{0, 32, 64, 32, 64, 96, 64, 32, 0});
}

TEST_CASE("gradients are cast while their sums exist, and those outside of FP8 wait for the optimizer") {
  const ScheduleShape shape{.loops = 2, .micro_batches = 1, .zero_stage = 2, .reduces = true};
  StepMemory memory = equal_memory(shape);
  for (StageMemory& stage : memory.stages)
    stage.holdings = {{Category::gradients, 16, Event::sums_begin, Event::sums_end},
                      {Category::gradients, 4, Event::sums_are_cast, Event::gradients_are_reduced},
                      {Category::gradients, 8, Event::sums_are_cast, Event::optimizer_ends}};
  const Simulation simulation =
      simulate(make_schedule(shape), equal_costs(shape, {.reduce = 0.5}), memory, Timeline::record);
  // B1 sums 16, of which R1 makes 12 as B0 begins to sum 16 more. R0 frees the 4 that R1 has reduced and makes 12 of
  // these; the optimizer, which takes no time, frees the rest.
  CHECK(course(simulation.ranks[0], Category::gradients) == std::vector<double>{0, 16, 28, 20, 0});
  CHECK(simulation.ranks[0].high_water[Category::gradients] == 24 + 12);
}

TEST_CASE("sums of a step end with its last backward, those of a reduction with the backwards that it reduces") {
  const ScheduleShape shape{
      .kind = Kind::interleaved, .loops = 2, .micro_batches = 2, .zero_stage = 2, .reduces = true};
  const auto gradients = [&](const std::vector<Holding>& holdings) {
    StepMemory memory = equal_memory(shape);
    for (StageMemory& stage : memory.stages) stage.holdings = holdings;
    const Simulation simulation =
        simulate(make_schedule(shape), equal_costs(shape, {.optimizer = 1}), memory, Timeline::record);
    return course(simulation.ranks[0], Category::gradients);
  };
  CHECK(gradients({{Category::gradients, 16, Event::step_sums_begin, Event::step_sums_end},
                   {Category::gradients, 4, Event::step_sums_are_cast, Event::optimizer_ends}}) ==
        std::vector<double>{0, 16, 32, 8, 0});
  // Each micro-batch has B1 and B0, with forwards of the second one between them; only its reductions are later ones.
  CHECK(gradients({{Category::gradients, 16, Event::sums_begin, Event::sums_end}}) ==
        std::vector<double>{0, 16, 0, 16, 0});
  CHECK(gradients({{Category::gradients, 2, Event::later_reduction_starts, Event::later_gradients_are_reduced}}) ==
        std::vector<double>{0, 2, 0});
}

TEST_CASE("sums that nothing reduces are cast as their stage's gradients leave, and else in the optimizer's step") {
  ScheduleShape shape{.loops = 2, .micro_batches = 2};
  const auto gradients = [&] {
    StepMemory memory = equal_memory(shape);
    for (StageMemory& stage : memory.stages)
      stage.holdings = {{Category::gradients, 16, Event::step_sums_begin, Event::step_sums_end},
                        {Category::gradients, 4, Event::step_sums_are_cast, Event::gradients_have_left}};
    const Simulation simulation =
        simulate(make_schedule(shape), equal_costs(shape, {.optimizer = 1}), memory, Timeline::record);
    return course(simulation.ranks[0], Category::gradients);
  };
  shape.evicts_gradients = true;
  // B1 sums 16, of which EvictGradients makes 4 as B0 begins to sum 16 more; these have left when those are cast.
  CHECK(gradients() == std::vector<double>{0, 16, 20, 0});
  shape.evicts_gradients = false;
  CHECK(gradients() == std::vector<double>{0, 16, 32, 8});
}

TEST_CASE("without a timeline peaks are the same and there are no samples") {
  const ScheduleShape shape{.pipeline = 3, .loops = 2, .micro_batches = 4, .zero_stage = 3, .reduces = true};
  const CaseSeconds seconds{.transfer = 0.25, .gather = 0.5, .reduce = 0.5};
  const Simulation with = run(shape, seconds);
  const Simulation without = simulate(make_schedule(shape), equal_costs(shape, seconds), equal_memory(shape));
  CHECK(without.timeline.empty());
  CHECK(without.step_seconds == with.step_seconds);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CHECK(without.ranks[rank].memory.empty());
    CHECK(without.ranks[rank].peak_bytes == with.ranks[rank].peak_bytes);
    double peak = 0;
    for (const MemorySample& sample : with.ranks[rank].memory) peak = std::max(peak, sample.bytes.total());
    CHECK(peak == with.ranks[rank].peak_bytes);
  }
}

}  // namespace
}  // namespace llmtrain
