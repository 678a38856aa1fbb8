// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/planner.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "core/graph/graph.h"
#include "core/graph/operators/operators.h"
#include "core/graph/operators/routed_load.h"
#include "core/recipe/enum_words.h"
#include "core/recipe/rules/rules.h"
#include "core/recipe/step_shapes.h"
#include "parallel/plan/cost/disk_cost.h"
#include "parallel/plan/cost/muon_cost.h"
#include "parallel/plan/cost/offload_cost.h"
#include "parallel/plan/cost/operator_cost.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/memory/memory_model.h"
#include "parallel/plan/planner/fp8_payoff.h"
#include "parallel/plan/planner/memory_limit.h"
#include "parallel/plan/planner/planned_run.h"
#include "parallel/plan/planner/split_prices.h"
#include "parallel/plan/planner/stage_work.h"
#include "parallel/plan/report/plan.h"
#include "parallel/plan/report/text_layout.h"

namespace llmtrain {
namespace {

// Forward FLOPs of a sample that recompute repeats. On the unsharded graph: sharding does not change the whole model's
// FLOPs.
double recomputed_flops(const Partition& partition) {
  const Graph& graph = *partition.graph;
  PassSetting setting;
  setting.tokens.sequence_length = partition.recipe.batch.sequence_length;
  setting.tokens.target_length = target_length(partition.recipe);
  setting.program.attention = partition.recipe.kernels.attention;
  setting.recompute = partition.recipe.memory.recompute;
  setting.chunks = partition.recipe.memory.chunks;
  const OperatorLists operators(graph, setting);
  BlockCache<double> repeated(graph);
  double flops = 0;
  for (std::size_t block = 0; block < graph.blocks.size(); ++block)
    flops += repeated.of(block, [&] { return repeated_flops(operators.of(block), operators.recompute_of(block)); });
  return flops;
}

// The simulator subtracts times: a difference of zero may come out slightly negative by rounding.
double exposed_data_seconds(const RankSimulation& rank) { return std::max(0.0, rank.exposed_data_seconds); }

// The rank whose passes take longest, the first of equals.
const RankSimulation& busiest_rank(const Simulation& simulation) {
  return *std::ranges::max_element(simulation.ranks, {}, &RankSimulation::busy_seconds);
}

PlannedStep planned_step(const Plan& plan) {
  const RankSimulation& rank = busiest_rank(plan.simulation);
  return {.seconds = plan.simulation.step_seconds,
          // The slowdown of passes by concurrent collectives counts as exposed communication, not as compute.
          .compute_seconds = rank.busy_seconds - rank.communication_seconds - rank.slowed_seconds,
          .recompute_seconds = rank.recompute_seconds,
          .tensor_communication_seconds = rank.communication_seconds,
          .optimizer_seconds = rank.optimizer_seconds,
          .overhead_seconds = plan.costs.step_overhead_seconds,
          .bubble_fraction = plan.simulation.bubble_fraction,
          .exposed_communication_seconds =
              rank.communication_seconds + exposed_data_seconds(rank) + rank.exposed_transfer_seconds};
}

PlannedThroughput planned_throughput(const Plan& plan, const ClusterProfile& profile) {
  const Recipe& recipe = plan.layout->recipe();
  const auto devices = static_cast<double>(plan.layout->mesh().world());
  const double tokens = tokens_per_step(recipe);
  const auto samples = static_cast<double>(recipe.batch.global);
  const double model_flops =
      training_flops_per_sample(plan.layout->graph(), recipe.batch.sequence_length, target_length(recipe)) * samples;
  const double hardware_flops = model_flops + recomputed_flops(plan.layout->partition()) * samples;
  const double seconds = plan.simulation.step_seconds;
  const double peak = peak_flops(profile, recipe.precision);
  return {.tokens_per_second = tokens / seconds,
          .tokens_per_second_per_device = tokens / seconds / devices,
          .samples_per_second = static_cast<double>(recipe.batch.global) / seconds,
          .model_tflops_per_device = model_flops / seconds / devices / 1e12,
          .hardware_tflops_per_device = hardware_flops / seconds / devices / 1e12,
          .mfu = model_flops / seconds / devices / peak,
          .hfu = hardware_flops / seconds / devices / peak};
}

std::vector<PlannedRank> planned_ranks(const PricedLayout& priced, const Plan& plan) {
  const Mesh& mesh = plan.layout->mesh();
  // Global ranks are ordered tensor × context × data × pipeline, so each pipeline rank is one contiguous block.
  const std::int64_t alike = mesh.data * mesh.context * mesh.tensor;
  std::vector<PlannedRank> ranks;
  for (std::int64_t index = 0; index < mesh.pipeline; ++index) {
    const RankSimulation& simulated = plan.simulation.ranks[static_cast<std::size_t>(index)];
    const auto& instructions = plan.layout->schedule().ranks[static_cast<std::size_t>(index)].instructions;
    ranks.push_back({.rank = index * alike,
                     .count = alike,
                     .pipeline_rank = index,
                     .peak_bytes = simulated.peak_bytes,
                     .bytes = simulated.high_water,
                     .host_bytes = simulated.host_peak_bytes,
                     .evicted_bytes = evicted_bytes(priced.partition, index),
                     .swapped_bytes = swapped_states(priced.partition, index).bytes() +
                                      muon_copied_bytes(priced.partition, priced.setting().program.device, index),
                     .disk_bytes = plan.memory.stages[static_cast<std::size_t>(index)].disk,
                     .disk_traffic = disk_traffic(priced, index),
                     .disk_seconds = disk_seconds(priced, index),
                     .peak_instruction = to_text(instructions[static_cast<std::size_t>(simulated.peak_instruction)])});
  }
  return ranks;
}

// None where tokens go as their routers say, which a plan takes as even.
std::optional<PlannedRouting> planned_routing(const PricedLayout& priced) {
  const Graph& graph = priced.graph();
  if (graph.routing == nullptr) return std::nullopt;
  const PassSetting& setting = priced.setting();
  const auto layers =
      std::ranges::count_if(graph.blocks, [](const Block& block) { return block.experts() != nullptr; });
  const double part = 1 / static_cast<double>(layers);
  PlannedRouting mean;
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    const MixtureOfExpertsRecipe* const moe = graph.blocks[block].experts();
    if (moe == nullptr) continue;
    const auto choices = static_cast<double>(moe->top_k);
    const RoutedLoad load = routed_load(graph, block, setting.tokens.all(), setting.shards.expert);
    mean.expert_load += part * load.fullest * static_cast<double>(moe->experts) / choices;
    mean.rank_load += part * load.busiest * static_cast<double>(setting.shards.expert);
    mean.dropped_share += part * (1 - load.kept / choices);
    mean.idle_ranks += part * static_cast<double>(idle_ranks(graph, block, setting.tokens, setting.shards));
  }
  // What is kept is a sum of shares, which may round above the choices.
  mean.dropped_share = std::max(0.0, mean.dropped_share);
  return mean;
}

// Instructions keep their order when layers leave FP8, and so does what is held with what: the costs are the recipe's.
void add_fallback_peaks(const PricedLayout& priced, Plan& plan) {
  const PrecisionRecipe& precision = priced.recipe().precision;
  if (!precision.products_may_fall_back() && !precision.gradients_may_fall_back()) return;
  const StepMemory memory = make_step_memory(priced, Fp8Layers::after_fallback);
  const Simulation simulation = simulate(plan.layout->schedule(), plan.costs, memory);
  for (std::size_t i = 0; i < plan.report.ranks.size(); ++i)
    plan.report.ranks[i].fallback_peak_bytes = simulation.ranks[i].peak_bytes;
}

// What the busiest rank sends, with the exposed seconds of each entry: of data-parallel traffic and of transfers the
// simulated share.
std::vector<CommunicationEntry> planned_communication(const Plan& plan, const PricedLayout& priced) {
  std::vector<CommunicationEntry> entries = communication_of(priced, plan.layout->schedule());
  const RankSimulation& busiest = busiest_rank(plan.simulation);
  // The simulator knows exposed time per stream, not per tensor: it is split in proportion to each entry's time.
  const auto share_out = [&](Purpose purpose, double exposed_seconds) {
    const auto is_open = [&](const CommunicationEntry& entry) {
      return entry.purpose == purpose && entry.exposed_seconds == 0;
    };
    double seconds = 0;
    for (const CommunicationEntry& entry : entries)
      if (is_open(entry)) seconds += entry.seconds;
    const double share = seconds > 0 ? std::min(1.0, exposed_seconds / seconds) : 0;
    for (CommunicationEntry& entry : entries)
      if (is_open(entry)) entry.exposed_seconds = share * entry.seconds;
  };
  share_out(Purpose::data_parallel, exposed_data_seconds(busiest));
  share_out(Purpose::pipeline, busiest.exposed_transfer_seconds);
  return entries;
}

// Problems of a valid plan that its user should know about: one sentence per problem, with a remedy.

void warn_of_memory(PlanReport& report) {
  const MemoryVerdict verdict = verdict_of(report);
  if (verdict == MemoryVerdict::fits) return;
  const double limit = report.device_memory_bytes;
  const PlannedRank& fullest = fullest_rank(report);
  if (verdict == MemoryVerdict::tight) {
    report.warnings.push_back(
        fmt::format("tight: rank {} needs {} of {}, and plans of memory err by {}, {}; leave more room, or try it on "
                    "one node first",
                    fullest.rank, bytes_text(fullest.peak_bytes), bytes_text(limit),
                    margin_text(*report.accuracy.memory), origin_text(*report.accuracy.memory)));
    return;
  }
  report.warnings.push_back(fmt::format("does not fit: rank {} needs {} of {}, peak at \"{}\"", fullest.rank,
                                        bytes_text(fullest.peak_bytes), bytes_text(limit), fullest.peak_instruction));
}

void warn_of_fallback(PlanReport& report) {
  const std::optional<double> most = fallback_peak(report);
  const double limit = report.device_memory_bytes;
  if (!most || !report.fits || limit <= 0 || *most <= limit) return;
  report.warnings.push_back(
      fmt::format("precision.high_precision.fallback_steps: a rank may need up to {} of {} once layers have left FP8; "
                  "leave more room, or set it to 0",
                  bytes_text(*most), bytes_text(limit)));
}

void warn_of_bubble(Plan& plan) {
  const ScheduleShape& shape = plan.layout->partition().shape;
  // Fewer micro-batches than pipeline ranks leave ranks idle whatever the schedule.
  if (shape.micro_batches >= shape.pipeline) return;
  plan.report.warnings.push_back(
      fmt::format("{} micro-batches for {} pipeline ranks leave {:.0f} % of the time idle; raise batch.global or lower "
                  "batch.micro",
                  shape.micro_batches, shape.pipeline, 100 * plan.simulation.bubble_fraction));
}

void warn_of_sharing(const ClusterProfile& profile, Plan& plan) {
  const double ranks = profile.ranks_per_device;
  if (ranks <= 1) return;
  plan.report.warnings.push_back(fmt::format(
      "{:.3g} ranks share a device of {}: each is priced with its share of the cores, memory and bandwidth; "
      "set cluster.nodes to the number of machines",
      ranks, profile.name));
}

void warn_of_nodes(Plan& plan) {
  const Mesh& mesh = plan.layout->mesh();
  if (mesh.tensor > mesh.devices_per_node) {
    plan.report.warnings.push_back(
        fmt::format("parallel.tensor: {} ranks do not fit in one node of {} devices: every layer waits "
                    "for the network",
                    mesh.tensor, mesh.devices_per_node));
  }
  // Nobody expects full use of a single node; across several nodes it is usually a mistake to leave devices out.
  const std::int64_t idle = (mesh.devices_per_node - mesh.world() % mesh.devices_per_node) % mesh.devices_per_node;
  if (idle > 0 && mesh.world() > mesh.devices_per_node) {
    plan.report.warnings.push_back(fmt::format("{} devices of the last node are not used", idle));
  }
}

void warn_of_disk(const ClusterProfile& profile, Plan& plan) {
  if (plan.layout->recipe().memory.offload.optimizer != StatesPlace::disk || profile.host.disk_bandwidth > 0) return;
  plan.report.warnings.push_back(
      fmt::format("memory.offload.optimizer: {} does not state what a node's disk moves: {}/s is assumed; measure it "
                  "with llmtrain calibrate --disk FOLDER, or write host.disk_bandwidth into a profile",
                  profile.name, bytes_text(assumed_disk_bandwidth)));
}

void warn_of_relaying(Plan& plan) {
  const Mesh& mesh = plan.layout->mesh();
  const bool relays = plan.layout->recipe().parallel.expert_all_to_all == AllToAll::hierarchical;
  if (!relays || can_relay_rows(mesh)) return;
  plan.report.warnings.push_back(
      std::string("parallel.expert_all_to_all: \"hierarchical\" relays nothing that \"linear\" does not send: ") +
      (expert_node_ranks(mesh) > 1 ? "all expert ranks are in one node" : "no node has several of the expert ranks"));
}

void warn_of_precision(const ClusterProfile& profile, Plan& plan) {
  const PrecisionRecipe& precision = plan.layout->recipe().precision;
  const bool multiplies = multiplies_fp8(precision.fp8_level);
  if (multiplies && std::ranges::none_of(plan.layout->graph().parameters, &Parameter::takes_fp8)) {
    plan.report.warnings.push_back(fmt::format(
        "precision.fp8_level: no layer uses FP8: precision.fp8_products and precision.high_precision leave all in {}",
        word_of(precision.compute)));
  } else if (multiplies && small_peak_flops(profile, precision) == 0) {
    const std::string type = precision.multiplies_fp4() ? "FP4" : "FP8";
    plan.report.warnings.push_back(
        (precision.multiplies_fp4() ? "precision.product_format: " : "precision.fp8_level: ") + profile.name +
        " has no " + type + " matrix products: " + type + " saves memory and traffic, but no compute time");
  }
  // Profiles require positive rates of these types, so this only concerns profiles made in code.
  if (peak_flops(profile, {precision.compute, precision.gradients, Fp8Level::off}) > 0) return;
  plan.report.warnings.push_back("precision.compute: " + profile.name +
                                 " does not support this type; it is priced at the fp32 rate");
}

void fill_report(const PricedLayout& priced, Plan& plan) {
  const ClusterProfile& profile = priced.profile;
  const Layout& layout = *plan.layout;
  PlanReport& report = plan.report;
  report.recipe = layout.recipe();
  report.profile = profile.name;
  report.device_memory_bytes = profile.device.memory_bytes;
  report.total_parameters = layout.graph().parameter_count();
  report.active_parameters = layout.graph().active_parameter_count();
  report.embedding_parameters = layout.graph().embedding_parameter_count();
  report.mesh = layout.mesh();
  report.step = planned_step(plan);
  report.throughput = planned_throughput(plan, profile);
  report.run = planned_run(plan, profile);
  report.routing = planned_routing(priced);
  report.fp8_products = planned_products(priced);
  report.ranks = planned_ranks(priced, plan);
  add_fallback_peaks(priced, plan);
  report.communication = planned_communication(plan, priced);
  // Without a stated limit nothing can be said against the plan.
  const double limit = report.device_memory_bytes;
  report.fits = limit <= 0 || fullest_rank(report).peak_bytes <= limit;
  report.accuracy = accuracy_on(profile.accuracy, report.mesh.world());
  if (profile.device.has_hard_memory) report.fits = verdict_of(report) == MemoryVerdict::fits;
  report.warnings = recipe_warnings(layout.recipe());
  warn_of_memory(report);
  warn_of_fallback(report);
  warn_of_bubble(plan);
  warn_of_sharing(profile, plan);
  warn_of_nodes(plan);
  warn_of_disk(profile, plan);
  warn_of_relaying(plan);
  warn_of_precision(profile, plan);
}

// A run may switch to other splits of its experts, which gather other weights and compute other rows.
void hold_all_splits(const PricedLayout& priced, Plan& plan) {
  const Partition& partition = priced.partition;
  for (const std::int64_t split : partition.expert_splits) {
    if (split == partition.mesh.expert_tensor) continue;
    const Partition split_partition = partition.split_by(split);
    const PricedLayout priced_split(split_partition, priced.profile);
    const Simulation other =
        simulate(plan.layout->schedule(), make_step_costs(priced_split), make_step_memory(priced_split));
    for (std::size_t rank = 0; rank < other.ranks.size(); ++rank) {
      RankSimulation& most = plan.simulation.ranks[rank];
      const RankSimulation& here = other.ranks[rank];
      most.host_peak_bytes = std::max(most.host_peak_bytes, here.host_peak_bytes);
      if (here.peak_bytes <= most.peak_bytes) continue;
      most.peak_bytes = here.peak_bytes;
      most.high_water = here.high_water;
      most.peak_instruction = here.peak_instruction;
    }
  }
}

}  // namespace

Partition partition_for(const Recipe& recipe, const ClusterProfile& cluster, std::int64_t devices_per_node,
                        std::shared_ptr<const Graph> graph) {
  if (recipe.memory.limit)
    return partition_for(settle_memory_limit(recipe, cluster, devices_per_node), cluster, devices_per_node);
  // A given graph has the products of another layout.
  if (recipe.precision.plans_products()) graph = nullptr;
  Recipe of_states = settle_fp8_products(recipe, cluster, devices_per_node);
  if (!cluster.program.fp8.states) of_states.precision.fp8_level = Fp8Level::off;
  Partition partition = Partition::make(of_states, devices_per_node, std::move(graph));
  if (cluster.program.memory.narrow_states && compute_device(recipe, cluster) == ComputeDevice::cuda)
    for (std::vector<StateGroup>& groups : partition.groups)
      for (StateGroup& group : groups)
        if (!group.is_fp8) group.types = narrow_states(group.types);
  // Products are those of the recipe.
  partition.recipe.precision = recipe.precision;
  settle_by_price(partition, share_devices(cluster, partition.mesh));
  return partition;
}

std::shared_ptr<const Layout> lay_out(const Recipe& recipe, const ClusterProfile& cluster,
                                      std::shared_ptr<const Graph> graph) {
  return std::make_shared<const Layout>(
      partition_for(recipe, cluster, devices_per_node(recipe, cluster), std::move(graph)));
}

Plan make_plan(std::shared_ptr<const Layout> layout, const ClusterProfile& cluster, Timeline timeline) {
  Plan plan;
  plan.layout = std::move(layout);
  const Partition& partition = plan.layout->partition();
  // The whole plan, memory limit included, refers to a rank's share of its device.
  const ClusterProfile profile = share_devices(cluster, partition.mesh);
  const PricedLayout priced(partition, profile);
  plan.costs = make_step_costs(priced);
  plan.memory = make_step_memory(priced);
  plan.simulation = simulate(plan.layout->schedule(), plan.costs, plan.memory, timeline);
  hold_all_splits(priced, plan);
  fill_report(priced, plan);
  if (timeline == Timeline::record) plan.report.work = stage_work(priced, plan.costs);
  return plan;
}

}  // namespace llmtrain
