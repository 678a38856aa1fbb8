// SPDX-License-Identifier: Apache-2.0
// A step whose passes are CUDA graphs needs the memory that its plan predicts. The emulated GPU counts that of a graph
// at its peak from its capture on, where a tensor that it has freed is no tensor any more.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "parallel/device/device.h"
#include "tests/emulator/device/runtime.h"
#include "tests/parallel/engine/planned/planned_run.h"

namespace llmtrain::test {
namespace {

const Overrides graphs{"cluster.device=\"cuda\"", "kernels.cuda_graphs=true", "precision.compute=\"bf16\""};

const std::vector<Overrides> recipes{
    {"batch.micro=8"},
    {"batch.micro=4", "memory.recompute=\"selective\""},
    {"batch.micro=8", "memory.recompute=\"full\"", "model.vocab_size=8192"},
    {"batch.micro=4", "model.architecture=\"gpt2\"", "kernels.attention=\"math\""},
    // All micro-batches are in flight at once, and each has its own memory for what passes take.
    {"batch.micro=4", "pipeline.schedule=\"gpipe\"", "kernels.attention=\"math\""},
    // The first stage has no backward.
    {"batch.micro=4", "pipeline.loops=2", R"(training.freeze=["embedding.*", "layers.0.*", "layers.1.*"])"},
};

double counted_peak(const Plan& plan) {
  emulated::Counters& counters = emulated::counters(0);
  const std::int64_t before = counters.allocated;
  counters.peak = before;
  const std::shared_ptr<Communicator> communicator = make_solo_communicator();
  Trainer trainer(plan.layout, *communicator, choose_device(DeviceKind::cuda));
  for (int step = 0; step < 3; ++step) trainer.step();
  return static_cast<double>(counters.peak - before);
}

}  // namespace

TEST_CASE("a step of CUDA graphs needs the planned memory") {
  const TrainingSetting setting;
  choose_device(DeviceKind::cuda);  // loads the device, whose kernels plans count
  for (const Overrides& recipe : recipes) {
    INFO(in_words(1, recipe));
    const Plan plan = plan_of(recipe_of(setting, {1, graphs + recipe}));
    const PlannedRank& rank = plan.report.ranks.front();
    const double planned = rank.peak_bytes - rank.bytes[MemoryCategory::framework];
    CHECK(counted_peak(plan) == Approx(planned).epsilon(0.05));
  }
}

}  // namespace llmtrain::test
