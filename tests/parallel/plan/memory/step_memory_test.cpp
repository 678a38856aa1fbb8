// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/simulator/step_memory.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>

#include "tests/parallel/plan/memory/memory_case.h"

namespace llmtrain::test {
namespace {

using Category = MemoryCategory;
using Event = MemoryEvent;

double saved_of(const StageMemory& stage) { return stage.held(Event::forward_starts, Event::backward_ends); }
double forward_workspace(const StageMemory& stage) { return stage.held(Event::forward_starts, Event::forward_ends); }
double backward_workspace(const StageMemory& stage) { return stage.held(Event::backward_starts, Event::backward_ends); }

double saved_of_all(const StepMemory& memory) {
  double saved = 0;
  for (const StageMemory& stage : memory.stages) saved += saved_of(stage);
  return saved;
}

TEST_CASE("splitting one rank's model into stages moves activations between them and loses none") {
  for (const DeviceKind device : {DeviceKind::cpu, DeviceKind::cuda}) {
    MemoryCase value = gpt_case(4, 64, 4, 96, 32);
    value.device = device;
    const double whole = saved_of_all(value.memory());
    for (const std::int64_t loops : {2, 4}) {
      value.recipe.pipeline.loops = loops;
      CHECK(saved_of_all(value.memory()) == whole);
    }
  }
}

TEST_CASE("pipeline stages keep what they received") {
  MemoryCase value = gpt_case(4, 64, 4, 96, 32);
  value.recipe.pipeline.loops = 2;
  const StepMemory here = value.memory();
  value.recipe.pipeline.loops = 1;
  value.mesh.pipeline = 2;
  const StepMemory apart = value.memory();
  const double boundary = 2 * 32 * 64;
  CHECK(apart.stages[0].held(Event::forward_starts, Event::activation_is_sent) == boundary);
  CHECK(apart.stages[0].held(Event::gradient_arrives, Event::backward_ends) == boundary);
  CHECK(apart.stages[1].held(Event::activation_arrives, Event::forward_ends) == boundary);
  CHECK(apart.stages[1].held(Event::backward_starts, Event::gradient_is_sent) == boundary);
  // The ends of the chain exchange nothing.
  CHECK(apart.stages[0].held(Event::activation_arrives, Event::forward_ends) == 0);
  CHECK(apart.stages[1].held(Event::forward_starts, Event::activation_is_sent) == 0);
  CHECK(saved_of(apart.stages[0]) == saved_of(here.stages[0]) - boundary);
  CHECK(saved_of(apart.stages[1]) == saved_of(here.stages[1]) + boundary);
  // During a pass, tensors received from another rank count as communication, and are part of the same peak.
  CHECK(backward_workspace(apart.stages[0]) == backward_workspace(here.stages[0]));
  CHECK(forward_workspace(apart.stages[1]) == forward_workspace(here.stages[1]) - boundary);
}

TEST_CASE("regular checkpoints that training does not wait for are copied on a CPU, each rank's share") {
  MemoryCase value = gpt_case(4, 64, 4, 96, 32);
  const auto copy = [&] {
    const double with = value.memory().stages.front().resident[Category::buffers];
    value.recipe.checkpoint.every = 0;
    const double without = value.memory().stages.front().resident[Category::buffers];
    value.recipe.checkpoint.every = 10;
    return with - without;
  };
  value.recipe.checkpoint.every = 10;
  value.recipe.precision.compute = DataType::fp32;
  value.device = DeviceKind::cpu;
  // Weights and two moments in fp32; data ranks share them, whatever ZeRO shards.
  const auto parameters = static_cast<double>(value.graph().parameter_count());
  CHECK(copy() == 12 * parameters);
  value.mesh.data = 2;
  CHECK(copy() == 6 * parameters);
  value.recipe.parallel.zero_stage = 3;
  CHECK(copy() == 6 * parameters);
  value.recipe.checkpoint.async = false;
  CHECK(copy() == 0);
  value.recipe.checkpoint.async = true;
  value.device = DeviceKind::cuda;
  CHECK(copy() == 0);
}

TEST_CASE("every category on one CPU rank with a small fp32 model") {
  MemoryCase value = gpt_case(2, 64, 4, 96, 32);
  value.device = DeviceKind::cpu;
  value.recipe.precision.compute = DataType::fp32;
  value.recipe.batch = {.global = 4, .micro = 2, .sequence_length = 32};
  const StepMemory memory = value.memory();
  const auto parameters = static_cast<double>(value.graph().parameter_count());
  const StageMemory& stage = memory.stages.front();
  CHECK(stage.resident[Category::weights] == 4 * parameters);
  CHECK(stage.resident[Category::gradients] == 4 * parameters);
  CHECK(stage.resident[Category::master_weights] == 0);
  CHECK(stage.resident[Category::optimizer] == 8 * parameters);
  // Per layer: sixteen residual widths, statistics of two norms, flash attention's row statistics. The head: its input,
  // its gradient, statistics.
  const double tokens = 64, residual = 4 * tokens * 64;
  const double layer = 16 * residual + 4 * 4 * tokens + 4 * tokens * 4;
  CHECK(saved_of(stage) == 2 * layer + 2 * residual + 8 * tokens);
  // The forward's peak is in the head: normed rows, losses, logits and the result of their product.
  CHECK(forward_workspace(stage) == residual + 4 * tokens + 4 * tokens * (96 + 64));
  // The backward's peak is in the last layer, when the head's tensors are freed: the gradients of its output and of the
  // activation's input.
  CHECK(backward_workspace(stage) == 5 * residual - (2 * residual + 8 * tokens));
  CHECK(memory.rank[Category::buffers] == 16 * 4 * 32);
  CHECK(memory.rank[Category::communication] == 0);
  value.recipe.precision.compute = DataType::bf16;
  CHECK(value.memory().stages.front().resident[Category::weights] == 2 * parameters);
  CHECK(value.memory().stages.front().resident[Category::master_weights] == 4 * parameters);
}

TEST_CASE("recompute trades saved activations for working memory") {
  MemoryCase value = gpt_case(8, 64, 4, 96, 32);
  value.recipe.kernels.attention = AttentionKernel::math;
  const StageMemory none = value.memory().stages.front();
  value.recipe.memory.recompute = Recompute::selective;
  const StageMemory selective = value.memory().stages.front();
  value.recipe.memory.recompute = Recompute::full;
  const StageMemory full = value.memory().stages.front();
  CHECK(saved_of(none) > saved_of(selective));
  CHECK(saved_of(selective) > saved_of(full));
  CHECK(backward_workspace(none) < backward_workspace(full));
  CHECK(saved_of(none) + backward_workspace(none) > saved_of(full) + backward_workspace(full));
}

TEST_CASE("every way to split a model reduces the memory per rank") {
  MemoryCase value = gpt_case(8, 64, 8, 96, 32);
  value.recipe.batch.global = 8;
  const auto resident = [&] { return value.memory().stages.front().resident.total(); };
  const auto saved = [&] { return saved_of(value.memory().stages.front()); };
  double before = resident(), saved_before = saved();
  for (const std::int64_t tensor : {2, 4, 8}) {
    value.mesh.tensor = tensor;
    CHECK(resident() < before);
    CHECK(saved() < saved_before);
    before = resident();
    saved_before = saved();
  }
  value.recipe.parallel.sequence = true;
  CHECK(saved() < saved_before);
  value.mesh.data = value.mesh.zero_shard = 8;
  for (const std::int64_t stage : {1, 2, 3}) {
    value.recipe.parallel.zero_stage = stage;
    CHECK(resident() < before);
    before = resident();
  }
  value.mesh.pipeline = 2;
  CHECK(resident() < before);
}

TEST_CASE("offload moves bytes to the host and loses none") {
  MemoryCase value = gpt_case(8, 64, 8, 96, 32);
  const StageMemory before = value.memory().stages.front();
  value.recipe.memory.offload = {.optimizer = StatesPlace::host, .weights = true, .activations = true};
  value.recipe.parallel.zero_stage = 3;
  const StageMemory after = value.memory().stages.front();
  for (const Category category : {Category::weights, Category::master_weights, Category::optimizer}) {
    CHECK(after.host_resident[category] >= before.resident[category]);
    CHECK(after.resident[category] == 0);
  }
  CHECK(after.host_resident[Category::optimizer] == before.resident[Category::optimizer]);
  // Pinned memory is a power of two of bytes.
  CHECK(std::has_single_bit(static_cast<std::uint64_t>(after.host_resident[Category::weights])));
  CHECK(after.host_resident[Category::weights] < 2 * before.resident[Category::weights]);
  // They are there from gather to free.
  CHECK(after.held(Event::weights_are_gathered, Event::weights_are_freed) == before.resident[Category::weights]);
  CHECK(after.held(Event::gradients_begin, Event::gradients_are_reduced) == 0);
  CHECK(after.resident[Category::gradients] == before.resident[Category::gradients]);
  CHECK(saved_of(after) == 0);
  CHECK(after.held(Event::forward_starts, Event::backward_ends, MemoryPlace::host) == saved_of(before));
  CHECK(backward_workspace(after) > backward_workspace(before));
  CHECK(backward_workspace(after) < backward_workspace(before) + saved_of(before));
}

TEST_CASE("the host has a master of weights that have none on the device") {
  MemoryCase value = gpt_case(8, 64, 8, 96, 32);
  value.recipe.precision.compute = DataType::fp32;
  value.recipe.memory.offload.optimizer = StatesPlace::host;
  const StageMemory stage = value.memory().stages.front();
  CHECK(stage.host_resident[Category::master_weights] == stage.resident[Category::weights]);
  CHECK(stage.host_resident[Category::optimizer] == 2 * stage.resident[Category::weights]);
}

TEST_CASE("every rank has the framework's memory, and a communicator per kind of group") {
  MemoryCase value = gpt_case(8, 64, 8, 96, 32);
  const auto communication = [&] { return value.memory().rank[Category::communication]; };
  CHECK(value.memory().rank[Category::framework] > 0);
  CHECK(communication() == 0);
  value.mesh.pipeline = 2;
  const double transfers = communication();
  CHECK(transfers > 0);
  value.mesh.tensor = 2;
  const double collective = communication() - transfers;
  CHECK(collective > transfers);
  value.recipe.batch.global = 2;
  value.mesh.data = 2;
  CHECK(communication() == Approx(transfers + 2 * collective));
}

}  // namespace
}  // namespace llmtrain::test
