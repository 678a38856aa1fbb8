// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/engine/planned/planned_run.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

#include "kernels/onednn/matmul.h"
#include "parallel/comm/staged/staged_world.h"
#include "parallel/device/measurement.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/runtime/torch_staging.h"
#include "tests/support/source_folder.h"

namespace llmtrain::test {
namespace {

using Category = MemoryCategory;

Traffic sent_traffic(const OperationLog& log) {
  Traffic traffic;
  for (const CommunicationCount& count : log.counts()) {
    if (count.bytes == 0) continue;
    const std::string name =
        count.collective == Collective::send ? "send_receive" : std::string(collective_name(count.collective));
    traffic[std::string(purpose_name(count.purpose)).append(" ").append(name)] += count.bytes;
  }
  return traffic;
}

// One line each, rounded to bytes: a ring's part of a tensor need not be a whole number.
std::string to_text(const Traffic& traffic) {
  std::string text;
  for (const auto& [what, bytes] : traffic) text += what + " " + std::to_string(std::llround(bytes)) + "\n";
  return text;
}

// Counts tensors on the device alone: a GPU's tensors are copied through others on the host, which threads of streams
// free.
class DeviceMemory final : public ThreadMemory {
 public:
  explicit DeviceMemory(bool is_gpu) : is_gpu_(is_gpu) {}
  void reportMemoryUsage(void* memory, std::int64_t size, std::size_t all, std::size_t reserved,
                         c10::Device device) override {
    if (device.is_cuda() == is_gpu_) ThreadMemory::reportMemoryUsage(memory, size, all, reserved, device);
  }

 private:
  bool is_gpu_;
};

class DeviceWatch {
 public:
  explicit DeviceWatch(bool is_gpu) : memory_(std::make_shared<DeviceMemory>(is_gpu)) {}
  const ThreadMemory& memory() const { return *memory_; }

 private:
  std::shared_ptr<DeviceMemory> memory_;
  c10::DebugInfoGuard guard_{c10::DebugInfoKind::PROFILER_STATE, memory_};
};

bool is_of_gpus(const Recipe& recipe) { return recipe.cluster.device == DeviceKind::cuda; }

ClusterProfile profile_of(const Recipe& recipe) {
  return load_profile(is_of_gpus(recipe) ? "h100-sxm-80gb" : "cpu", source_folder() / "recipes/clusters");
}

RankRun run_rank(const Plan& plan, Communicator& communicator, const std::function<void(Trainer&)>& prepare,
                 const BlockFactory& make) {
  const DeviceWatch watch(is_of_gpus(plan.layout->recipe()));
  Trainer trainer(plan.layout, communicator,
                  is_of_gpus(plan.layout->recipe()) ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU), {},
                  FirstWeights::load, {}, make);
  prepare(trainer);
  RankRun run;
  std::string executed;
  trainer.runner().set_observer([&](const Instruction& instruction) { executed += to_text(instruction) + "\n"; });
  const std::int64_t held = watch.memory().now();
  // From here on it counts in place of the other.
  const DeviceWatch steps(is_of_gpus(plan.layout->recipe()));
  const StateDisk* disk = trainer.model().state_disk();
  const auto moved = [&] { return disk == nullptr ? 0 : disk->stream().bytes_read() + disk->stream().bytes_written(); };
  GradientEviction* const eviction = trainer.model().gradient_eviction();
  const auto evicted = [&] { return eviction == nullptr ? 0 : eviction->bytes(); };
  const SwappedUpdate* const swap = trainer.model().swapped_update();
  const MatrixCopies* const copies = trainer.model().matrix_copies();
  const auto swapped = [&] {
    return (swap == nullptr ? 0 : swap->bytes()) + (copies == nullptr ? 0 : copies->bytes());
  };
  for (int step = 0; step < 2; ++step) {
    communicator.log().reset_counts();
    const std::int64_t before = moved(), evicted_before = evicted(), swapped_before = swapped();
    trainer.step();
    run.disk_traffic.push_back(moved() - before);
    run.evicted.push_back(evicted() - evicted_before);
    run.swapped.push_back(swapped() - swapped_before);
    run.traffic.push_back(sent_traffic(communicator.log()));
    run.executed.push_back(std::exchange(executed, {}));
  }
  run.peak = held + steps.memory().peak();
  for (const ParameterUnit* unit : trainer.model().units()) {
    const auto bytes = unit->parameters->bytes();
    run.kept.weights += bytes.weights;
    run.kept.gradients += bytes.gradients;
    run.kept.moments += bytes.moments;
    run.kept.host += bytes.host;
    run.kept.disk += bytes.disk;
  }
  if (disk != nullptr && is_of_gpus(plan.layout->recipe())) run.kept.host += disk->buffers();
  run.kept.host += trainer.model().offloaded_activation_bytes();
  return run;
}

Traffic busiest_traffic(const std::vector<RankRun>& runs, std::size_t step) {
  Traffic busiest;
  for (const RankRun& run : runs)
    for (const auto& [what, bytes] : run.traffic[step]) busiest[what] = std::max(busiest[what], bytes);
  return busiest;
}

void check_traffic(const Plan& plan, const std::vector<RankRun>& runs) {
  const std::string planned = to_text(traffic_of(plan));
  // Delayed scales are those of the steps before: for the first step ranks have to agree on them.
  for (std::size_t step = plan.layout->recipe().precision.delays_scales() ? 1 : 0; step < 2; ++step)
    CHECK(to_text(busiest_traffic(runs, step)) == planned);
}

// A plan transfers a tensor to its receiver at once. On a busy machine the receiver may be late, and the sender keeps
// the tensor until then: at most all that it sends in a step, whose end waits for the sends.
double late_bytes(const Plan& plan) {
  const Traffic traffic = traffic_of(plan);
  const auto sent = traffic.find("pipeline send_receive");
  return sent == traffic.end() ? 0 : sent->second;
}

}  // namespace

Recipe recipe_of(const TrainingSetting& setting, const RankCase& layout) {
  Overrides overrides{"model.layers=4",
                      "model.hidden_size=128",
                      "model.ffn_hidden_size=320",
                      "model.vocab_size=512",
                      "model.max_sequence_length=32",
                      "batch.sequence_length=32",
                      "batch.micro=1",
                      "launch.ranks=" + std::to_string(layout.ranks)};
  overrides.insert(overrides.end(), layout.overrides.begin(), layout.overrides.end());
  return setting.recipe(overrides);
}

Plan plan_of(const Recipe& recipe) { return make_plan(recipe, profile_of(recipe), Timeline::leave_out); }

Plan plan_of(std::shared_ptr<const Layout> layout) {
  const ClusterProfile profile = profile_of(layout->recipe());
  return make_plan(std::move(layout), profile, Timeline::leave_out);
}

Traffic traffic_of(const Plan& plan) {
  Traffic traffic;
  for (const CommunicationEntry& entry : plan.report.communication)
    traffic[std::string(purpose_name(entry.purpose)).append(" ").append(planned_name(entry.collective))] +=
        entry.bytes_per_rank_per_step;
  return traffic;
}

std::vector<RankRun> run_ranks(const Plan& plan, const std::function<void(Trainer&)>& prepare,
                               const BlockFactory& make) {
  const Mesh& mesh = plan.layout->mesh();
  std::vector<RankRun> runs(static_cast<std::size_t>(mesh.world()));
  LocalWorld(static_cast<int>(mesh.world())).run([&](Communicator& communicator) {
    RankRun& run = runs[static_cast<std::size_t>(communicator.rank())];
    std::shared_ptr<Communicator> connected = as_it_is(communicator);
    if (is_of_gpus(plan.layout->recipe()))
      connected = stage_through_host(std::move(connected), make_torch_staging({at::kCUDA, 0}));
    run = run_rank(plan, *connected, prepare, make);
    run.pipeline_rank = communicator.rank() / (mesh.world() / mesh.pipeline);
  });
  return runs;
}

void check_memory(const Plan& plan, const RankRun& run) {
  MemoryBytes resident;
  const auto ranks = static_cast<std::size_t>(plan.layout->schedule().shape.pipeline);
  for (auto stage = static_cast<std::size_t>(run.pipeline_rank); stage < plan.memory.stages.size(); stage += ranks) {
    for (std::size_t i = 0; i < memory_categories; ++i)
      resident.bytes[i] += plan.memory.stages[stage].resident.bytes[i];
  }
  const auto close = [](double bytes) { return Approx(bytes).epsilon(0.05); };
  CHECK(static_cast<double>(run.kept.weights) ==
        close(resident[Category::weights] + resident[Category::master_weights]));
  CHECK(static_cast<double>(run.kept.gradients) == close(resident[Category::gradients]));
  CHECK(static_cast<double>(run.kept.moments) == close(resident[Category::optimizer]));
  const PlannedRank& planned = plan.report.ranks[static_cast<std::size_t>(run.pipeline_rank)];
  CHECK(static_cast<double>(run.kept.host) == close(planned.host_bytes));
  // To the byte; the file has padding.
  for (const std::int64_t bytes : run.disk_traffic) CHECK(static_cast<double>(bytes) == planned.disk_traffic);
  for (const std::int64_t bytes : run.evicted) CHECK(static_cast<double>(bytes) == planned.evicted_bytes);
  for (const std::int64_t bytes : run.swapped) CHECK(static_cast<double>(bytes) == planned.swapped_bytes);
  CHECK(static_cast<double>(run.kept.disk) <= planned.disk_bytes);
  // Small moments are read twice.
  CHECK(planned.disk_traffic >= 2 * planned.disk_bytes);
  if (!stores_fp8(plan.layout->recipe().precision.fp8_level)) CHECK(planned.disk_traffic == 2 * planned.disk_bytes);
  INFO("peak at " << planned.peak_instruction);
  // Buffers of NCCL's communicators are no tensors.
  const double peak =
      planned.peak_bytes - planned.bytes[Category::framework] - plan.memory.rank[Category::communication];
  CHECK(static_cast<double>(run.peak) >= 0.95 * peak);
  // A plan counts oneDNN's products, which write in place; sanitizer builds use LibTorch's, which copy.
  if (kernels::has_onednn()) CHECK(static_cast<double>(run.peak) <= 1.05 * peak + late_bytes(plan));
}

void check_layout(const TrainingSetting& setting, const RankCase& layout) {
  INFO(in_words(layout.ranks, layout.overrides));
  check_plan(plan_of(recipe_of(setting, layout)));
}

void check_plan(const Plan& plan, const BlockFactory& make) {
  const auto runs = run_ranks(
      plan, [](Trainer&) {}, make);
  check_traffic(plan, runs);
  for (const RankRun& run : runs) {
    const std::string expected = to_text(plan.layout->schedule().ranks[static_cast<std::size_t>(run.pipeline_rank)]);
    CHECK(run.executed == std::vector<std::string>(2, expected));
    check_memory(plan, run);
  }
}

void check_skewed(const TrainingSetting& setting, const RankCase& layout, double tolerance) {
  INFO(in_words(layout.ranks, layout.overrides));
  const Plan plan = plan_of(recipe_of(setting, layout));
  const auto runs = run_ranks(plan);
  if (tolerance == 0) check_traffic(plan, runs);
  const Traffic planned = traffic_of(plan);
  for (std::size_t step = 0; tolerance > 0 && step < 2; ++step) {
    const Traffic busiest = busiest_traffic(runs, step);
    REQUIRE(busiest.size() == planned.size());
    for (const auto& [what, bytes] : planned) {
      INFO(what);
      CHECK(busiest.at(what) == Approx(bytes).epsilon(tolerance));
    }
  }
  check_memory(plan, *std::ranges::max_element(runs, {}, &RankRun::peak));
}

}  // namespace llmtrain::test
