// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/policies/policy_prices.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/recipe/pipeline_order.h"
#include "core/recipe/pipeline_schedules.h"
#include "core/residency/residency_check.h"
#include "parallel/plan/cost/priced_layout.h"
#include "parallel/plan/cost/state_cost.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/policies/task_copies.h"

namespace llmtrain {
namespace {

// Passes of a step beyond which stages are not cut finer: what is planned grows with their square.
constexpr std::int64_t most_passes = 2048;

// The plans that the policies are priced on, each made once.
class PolicyPlans {
 public:
  PolicyPlans(Recipe recipe, const ClusterProfile& cluster, std::int64_t devices_per_node)
      : recipe_(std::move(recipe)), cluster_(cluster), devices_per_node_(devices_per_node) {}

  struct Planned {
    Plan plan;
    std::vector<double> host_seconds;  // by pipeline rank; empty: the host cannot update
  };

  // None where the rules of recipes refuse it.
  const Planned* of(PipelineSchedule schedule, std::int64_t loops) {
    const auto key = std::pair(schedule, loops);
    const auto known = plans_.find(key);
    if (known != plans_.end()) return known->second.get();
    std::unique_ptr<Planned>& made = plans_[key];
    Recipe recipe = recipe_;
    recipe.pipeline.schedule = schedule;
    recipe.pipeline.loops = loops;
    try {
      made = std::make_unique<Planned>(Planned{planned(recipe), {}});
    } catch (const Error&) {
      return nullptr;
    }
    // The host does not make Muon's update.
    if (recipe.training.optimizer.name == OptimizerKind::muon) return made.get();
    recipe.memory.offload.optimizer = StatesPlace::host;
    try {
      made->host_seconds = planned(recipe).costs.optimizer_seconds;
    } catch (const Error&) {
      // What a rule refuses.
    }
    return made.get();
  }

  Plan of_recipe() const { return planned(recipe_); }

 private:
  Plan planned(const Recipe& recipe) const {
    return make_plan(std::make_shared<const Layout>(partition_for(recipe, cluster_, devices_per_node_)), cluster_);
  }

  Recipe recipe_;
  const ClusterProfile& cluster_;
  std::int64_t devices_per_node_;
  std::map<std::pair<PipelineSchedule, std::int64_t>, std::unique_ptr<Planned>> plans_;
};

// The numbers of stages that divide a rank's layers, as far as a step's passes stay few enough; the most last.
std::vector<std::int64_t> loop_choices(const Plan& plan) {
  const Recipe& recipe = plan.layout->recipe();
  const ScheduleShape& shape = plan.layout->partition().shape;
  std::vector<std::int64_t> choices;
  const std::int64_t layers = layer_count(recipe.model) / shape.pipeline;
  for (std::int64_t loops = 1; loops <= layers; ++loops)
    if (layers % loops == 0 && loops * shape.micro_batches <= most_passes) choices.push_back(loops);
  return choices;
}

void refuse_what_is_not_planned(const Plan& plan, const ClusterProfile& cluster) {
  const Recipe& recipe = plan.layout->recipe();
  const auto refuse = [](const std::string& message) { throw Error(ExitCode::bad_recipe, message); };
  if (compute_device(recipe, cluster) != ComputeDevice::cuda || cluster.device.pcie_bandwidth <= 0)
    refuse("/cluster/profile: policies of memory move tensors between a GPU and its host, and profile " + cluster.name +
           " is of no GPU or states no device.pcie_bandwidth; name another, as in --set cluster.profile=a100-40gb");
  if (plan.layout->partition().zero_stage() >= 2)
    refuse("/parallel/zero_stage: policies of memory are planned for whole weights and gradients, not for ZeRO stage " +
           std::to_string(plan.layout->partition().zero_stage()) + "; use --set parallel.zero_stage=1");
  if (recipe.precision.fp8_level != Fp8Level::off)
    refuse("/precision/fp8_level: policies of memory are planned without FP8; use --set precision.fp8_level=off");
  if (recipe.training.update_in_backward)
    refuse("/training/update_in_backward: policies of memory decide when stages are updated; use false");
  if (recipe.kernels.cuda_graphs)
    refuse("/kernels/cuda_graphs: graphs have fixed memory, which no policy of memory moves; use false");
}

// What each policy may choose between.
class PolicyChooser {
 public:
  PolicyChooser(PolicyPlans& plans, const Plan& own, double bandwidth, double limit)
      : plans_(plans),
        recipe_(own.layout->recipe()),
        loops_(loop_choices(own)),
        micro_batches_(own.layout->partition().shape.micro_batches),
        bandwidth_(bandwidth),
        limit_(limit) {}

  PolicyPrice price(MemoryPolicy policy) {
    best_ = {};
    least_ = 0;
    switch (policy) {
      case MemoryPolicy::naive_swapping:
        consider({.schedule = by_micro_batch(),
                  .loops = loops_of(by_micro_batch()),
                  .residency = {.eviction = Eviction::least_recently_used, .copies_clean = true},
                  .update = {}});
        break;
      case MemoryPolicy::zero_offload:
      case MemoryPolicy::patrickstar:
        consider_recipes_order(policy);
        break;
      case MemoryPolicy::zero_infinity:
        consider({recipe_.pipeline.schedule,
                  loops_of(recipe_.pipeline.schedule),
                  {.eviction = Eviction::after_use, .prefetches = true},
                  on_host()});
        break;
      case MemoryPolicy::harmony:
        for (const std::int64_t loops : loops_)
          consider({PipelineSchedule::breadth_first,
                    loops,
                    {.eviction = Eviction::furthest_next_use, .prefetches = true},
                    on_host()});
        break;
      case MemoryPolicy::own:
        consider_everything();
        break;
    }
    best_.policy = policy;
    if (!best_.choice) best_.least_bytes = least_;
    return best_;
  }

 private:
  PipelineSchedule by_micro_batch() const {
    return loops_of(PipelineSchedule::interleaved) > 1 ? PipelineSchedule::interleaved
                                                       : PipelineSchedule::one_forward_one_backward;
  }
  // The most stages of a rank that the schedule allows.
  std::int64_t loops_of(PipelineSchedule schedule) const {
    const std::int64_t ranks = recipe_.parallel.pipeline, loops = loops_.back();
    const bool runs =
        takes_loops(schedule, ranks, loops) && micro_batches_ % micro_batch_group(schedule, ranks, loops) == 0;
    return runs ? loops : 1;
  }
  bool may_update_early() const { return recipe_.training.clip_norm == 0; }
  UpdateRule on_host() const { return {TaskPlace::host, may_update_early()}; }

  // ZeRO-Offload keeps the weights where they are used, PatrickStar as many of all states as there is room for, and
  // updates where it finds them.
  void consider_recipes_order(MemoryPolicy policy) {
    const PipelineSchedule order = recipe_.pipeline.schedule;
    const bool stays = policy == MemoryPolicy::zero_offload;
    const ResidencyPolicy residency{.eviction = Eviction::furthest_next_use, .returns = stays};
    consider({order, loops_of(order), residency, on_host()}, stays);
    if (!stays) consider({order, loops_of(order), residency, {}});
  }

  void consider_everything() {
    for (const MemoryPolicy policy : {MemoryPolicy::naive_swapping, MemoryPolicy::zero_offload,
                                      MemoryPolicy::zero_infinity, MemoryPolicy::patrickstar, MemoryPolicy::harmony}) {
      const PolicyPrice before = std::exchange(best_, {});
      const double least = least_;
      const PolicyPrice named = price(policy);
      least_ = least == 0 ? named.least_bytes : named.least_bytes == 0 ? least : std::min(least, named.least_bytes);
      const bool is_better = named.choice && (!before.choice || named.step_seconds < before.step_seconds);
      best_ = is_better ? named : before;
    }
    for (const PipelineSchedule schedule : {PipelineSchedule::breadth_first, by_micro_batch()})
      for (const std::int64_t loops : loops_)
        for (const Eviction eviction : {Eviction::furthest_next_use, Eviction::most_idle_bytes})
          for (const bool returns : {false, true})
            consider_updates({schedule, loops, {eviction, false, true, returns}, {}});
  }

  void consider_updates(PolicyChoice choice) {
    for (const UpdateRule& update : {UpdateRule{}, UpdateRule{TaskPlace::device, true}, on_host()}) {
      // Nothing returns from a host that updates nothing.
      const bool is_new = update.place == TaskPlace::host || !choice.residency.returns;
      if (!is_new || (update.is_early && !may_update_early())) continue;
      choice.update = update;
      consider(choice);
    }
  }

  void consider(const PolicyChoice& choice, bool keeps_all_but_gradients = false) {
    const PolicyPlans::Planned* planned = plans_.of(choice.schedule, choice.loops);
    if (planned == nullptr) return;
    if (choice.update.place == TaskPlace::host && planned->host_seconds.empty()) return;
    const auto within = [&](double limit, double& least) {
      return price_choice(planned->plan, choice, limit, bandwidth_, planned->host_seconds, least);
    };
    double least = 0;
    std::optional<PolicyPrice> price = within(limit_, least);
    if (keeps_all_but_gradients) {
      // With room for everything the same moves gradients and new weights alone.
      const PolicyPrice room = within(1e18, least).value();
      least = room.peak_bytes;
      if (price && price->fetched_bytes + price->written_bytes > room.fetched_bytes + room.written_bytes) price.reset();
    }
    if (!price) {
      least_ = least_ == 0 ? least : std::min(least_, least);
      return;
    }
    if (!best_.choice || price->step_seconds < best_.step_seconds) best_ = *price;
  }

  PolicyPlans& plans_;
  const Recipe& recipe_;
  std::vector<std::int64_t> loops_;
  std::int64_t micro_batches_;
  double bandwidth_, limit_;
  PolicyPrice best_;
  double least_ = 0;
};

}  // namespace

std::optional<PolicyPrice> price_choice(const Plan& plan, const PolicyChoice& choice, double limit, double bandwidth,
                                        const std::vector<double>& host_seconds, double& least) {
  const Schedule schedule = with_stage_updates(plan.layout->schedule(), choice.update);
  const bool is_on_host = choice.update.place == TaskPlace::host;
  const Partition& partition = plan.layout->partition();
  CopyRates rates{bandwidth, is_on_host ? seconds_by_stage(partition, host_seconds) : std::vector<double>()};
  StepCosts costs = plan.costs;
  if (!is_on_host) divide_updates(partition, costs);
  PolicyPrice price{.choice = choice};
  StepCopies copies;
  std::vector<RankTasks> ranks;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const RankTasks& tasks = ranks.emplace_back(rank_tasks(plan, schedule, rank, choice.update));
    least = std::max(least, static_cast<double>(tasks.fixed_bytes + least_budget(tasks.sequence)));
  }
  if (least > limit) return std::nullopt;
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const RankTasks& tasks = ranks[rank];
    const std::int64_t budget = static_cast<std::int64_t>(limit) - tasks.fixed_bytes;
    const ResidencyPlan moves = steady_residency(tasks.sequence, budget, choice.residency);
    const ResidencyOutcome outcome = check_residency(tasks.sequence, moves, budget);
    copies.ranks.push_back(task_copies(tasks, moves, budget, rates, schedule.ranks[rank].instructions.size()));
    const double peak = static_cast<double>(outcome.peak_bytes + tasks.fixed_bytes);
    price.peak_bytes = std::max(price.peak_bytes, peak);
    if (static_cast<double>(outcome.traffic.bytes()) < price.fetched_bytes + price.written_bytes) continue;
    price.fetched_bytes = static_cast<double>(outcome.traffic.fetched);
    price.written_bytes = static_cast<double>(outcome.traffic.written_back);
  }
  const Simulation simulation = simulate(schedule, costs, plan.memory, Timeline::leave_out, copies);
  price.step_seconds = simulation.step_seconds;
  for (const RankSimulation& rank : simulation.ranks)
    price.exposed_copy_seconds = std::max(price.exposed_copy_seconds, rank.exposed_copy_seconds);
  return price;
}

PolicyTable price_policies(const Recipe& recipe, const ClusterProfile& cluster, std::int64_t devices_per_node,
                           double limit) {
  Recipe whole = recipe;
  whole.memory.policy = OffloadPolicy::none;
  whole.memory.offload = {};
  whole.memory.limit.reset();
  PolicyPlans plans(whole, cluster, devices_per_node);
  const Plan own = plans.of_recipe();
  refuse_what_is_not_planned(own, cluster);
  PolicyTable table{.limit_bytes = limit,
                    .unlimited_seconds = own.simulation.step_seconds,
                    .unlimited_bytes = fullest_rank(own.report).peak_bytes,
                    .prices = {},
                    .notes = {}};
  PolicyChooser chooser(plans, own, cluster.device.pcie_bandwidth, limit);
  for (std::size_t policy = 0; policy < memory_policy_names.size(); ++policy)
    table.prices.push_back(chooser.price(static_cast<MemoryPolicy>(policy)));
  if (recipe.training.clip_norm > 0)
    table.notes.emplace_back(
        "training.clip_norm: updates wait for the norm of all gradients; with 0 each stage's may follow its last "
        "backward, as Harmony's do");
  if (cluster.host.memory_bandwidth <= 0)
    table.notes.emplace_back("the profile states no host.memory_bandwidth: updates by the host take what PCIe does");
  return table;
}

}  // namespace llmtrain
