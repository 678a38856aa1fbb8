// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/mesh.h"
#include "parallel/plan/accuracy/accuracy.h"
#include "parallel/plan/accuracy/verdict.h"
#include "parallel/plan/report/stage_work.h"
#include "parallel/plan/simulator/simulator.h"
#include "parallel/plan/simulator/step_costs.h"
#include "parallel/plan/simulator/step_memory.h"

namespace llmtrain {

// Everything that `llmtrain plan` reports about a recipe. Times are in seconds, sizes in bytes; a device is one rank's
// GPU or CPU. docs/planner.md defines the bubble, model and hardware FLOPs, and the bytes.

// Where the time of the rank goes that is busy longest. The bubble is `seconds` minus all other parts (split_step()).
struct PlannedStep {
  double seconds = 0;
  double compute_seconds = 0;               // passes, without the collectives inside them
  double recompute_seconds = 0;             // part of compute_seconds
  double tensor_communication_seconds = 0;  // collectives inside passes: tensor, sequence, context, expert
  double optimizer_seconds = 0;
  double overhead_seconds = 0;
  double bubble_fraction = 0;                // of the window of passes, not of the whole step
  double exposed_communication_seconds = 0;  // everything that no computation hides, collectives inside passes included
};

struct PlannedThroughput {
  double tokens_per_second = 0;
  double tokens_per_second_per_device = 0;
  double samples_per_second = 0;
  double model_tflops_per_device = 0;
  double hardware_tflops_per_device = 0;
  double mfu = 0;
  double hfu = 0;
};

// What failures and checkpoints leave of a run's time. Without checkpoint.every the best interval is taken.
struct PlannedGoodput {
  double failures = 0;            // expected, while training
  std::int64_t every = 0;         // steps from one checkpoint to the next
  std::int64_t best_every = 0;    // the interval that loses least
  double checkpoint_seconds = 0;  // for which training waits, each
  // From the first step to the end of the last, restarts and repeated steps included; none if the run never ends.
  std::optional<double> expected_seconds;
  double fraction = 0;  // the run's seconds without any of it ÷ expected_seconds; 0 if it never ends
};

struct PlannedRun {
  double tokens = 0;
  double seconds = 0;
  double device_hours = 0;
  std::optional<double> energy_kilowatt_hours;  // of all nodes
  std::optional<PlannedGoodput> goodput;        // none where the profile does not say what it takes
  std::optional<double> price;                  // none where neither the recipe nor the profile has one per device
  std::string currency{};                       // of the price; empty: not said
};

// One entry per pipeline rank: the ranks of its tensor, context and data groups are identical.
struct PlannedRank {
  std::int64_t rank = 0;   // the first of the identical ranks
  std::int64_t count = 1;  // how many are identical
  std::int64_t pipeline_rank = 0;
  double peak_bytes = 0;
  MemoryBytes bytes;         // each category's high-water mark
  double host_bytes = 0;     // offloaded
  double evicted_bytes = 0;  // of gradients that a step moves to the host
  double swapped_bytes = 0;  // that its updates bring to the device and send back
  // The file of its states (memory.offload.optimizer "disk"), what a step reads from and writes to it, and how long.
  double disk_bytes = 0;
  double disk_traffic = 0;
  double disk_seconds = 0;
  std::string peak_instruction;
  // The most that the peak may become once layers have left FP8 (precision.high_precision.fallback_steps), however many
  // do; none where none can.
  std::optional<double> fallback_peak_bytes{};

  // The part of the peak that a framework's allocator has handed out and its logs state: without the device's context
  // and the buffers of communicators, which the device counts, too.
  double allocated_bytes() const {
    return peak_bytes - bytes[MemoryCategory::framework] - bytes[MemoryCategory::communication];
  }
};

// A change of one recipe key that makes the plan fit or faster, with the resulting figures.
struct PlanSuggestion {
  std::string change;  // "parallel.zero_stage=1", as --set takes it
  double step_seconds = 0;
  double peak_bytes = 0;
  bool fits = false;
  bool is_tight = false;  // fits or not by less than the error of plans
};

// What a replayed routing (model.moe.routing_zipf, routing_trace) does to experts and ranks: means over the layers.
struct PlannedRouting {
  double expert_load = 0;    // tokens of the fullest expert ÷ the mean over experts
  double rank_load = 0;      // rows of the busiest of the ranks that share the experts ÷ the mean over them
  double dropped_share = 0;  // of the tokens' choices
  double idle_ranks = 0;     // ranks without tokens, of those that share the experts
};

// Products of linear layers at an FP8 level that differ in their layer alone; seconds are a rank's for a micro-batch,
// forward and backward.
struct PlannedProduct {
  std::string name;  // of the operator: "attention.output"
  double rows = 0, columns = 0, inner = 0;
  double matrices = 1;      // that are multiplied at once: experts
  std::int64_t layers = 0;  // that have it
  double seconds = 0;       // in the compute type
  double fp8_seconds = 0;   // in FP8, with the casts
  bool uses_fp8 = false;    // what a run does

  // Whether the two are one entry.
  bool is_like(const PlannedProduct& other) const {
    return name == other.name && rows == other.rows && columns == other.columns && inner == other.inner &&
           matrices == other.matrices && uses_fp8 == other.uses_fp8;
  }
};

// A step under a memory.limit, at the least time that was found.
struct LimitPoint {
  double peak_bytes = 0;  // of the fullest rank
  double step_seconds = 0;
};

struct PlanReport {
  Recipe recipe;  // resolved
  std::string profile;
  double device_memory_bytes = 0;  // 0: the profile states none
  bool fits = false;               // the fullest rank's peak is at most that
  Accuracy accuracy;               // of plans for this device and program
  std::vector<std::string> warnings;
  std::int64_t total_parameters = 0;
  std::int64_t active_parameters = 0;
  std::int64_t embedding_parameters = 0;
  Mesh mesh;
  // Whether `mesh` has as many data ranks as the file's world leaves to degrees that were changed, not those of the
  // file.
  bool derives_data = false;
  PlannedStep step;
  PlannedThroughput throughput;
  PlannedRun run;
  std::optional<PlannedRouting> routing;
  std::vector<PlannedProduct>
      fp8_products;  // of all layers; empty where they are in FP8 as the recipe says, or none is
  std::vector<PlannedRank> ranks;
  std::vector<CommunicationEntry> communication;
  std::vector<LimitPoint> limits;           // that memory.limit could be, the least first; empty where it is null
  std::vector<PlanSuggestion> suggestions;  // at most three, fastest first; empty unless requested
  StageWork work;                           // for pages: empty without a recorded timeline
};

// The report together with the data it was computed from, which the page and the trace need.
struct Plan {
  PlanReport report;
  std::shared_ptr<const Layout> layout;
  StepCosts costs;
  StepMemory memory;
  Simulation simulation;  // with its timeline if that was requested
};

// What the data ranks are where a report derives them.
inline constexpr std::string_view derived_data_note =
    "what the other degrees leave of the recipe's ranks, as after --set parallel.data=auto";

// The same of one plan, with its number and what a run needs to have as many: "4, what …".
std::string derived_data_text(const PlanReport& report);

// The rank with the highest peak, the first of equals. `report.ranks` must not be empty.
const PlannedRank& fullest_rank(const PlanReport& report);

// The highest peak of any rank once layers have left FP8; none where none can.
std::optional<double> fallback_peak(const PlanReport& report);

// What the plan's memory says of the run. `report.ranks` must not be empty.
MemoryVerdict verdict_of(const PlanReport& report);

// Where the busiest rank's time goes. The parts are disjoint: compute excludes recompute, and exposed communication
// excludes collectives inside passes.
enum class StepPart {
  compute,
  recompute,
  communication_in_passes,
  bubble,
  exposed_communication,
  optimizer,
  overhead,
};
constexpr std::size_t step_parts = 7;

// Fraction of a step below which a part is rounding error and is not shown.
constexpr double negligible_share = 1e-6;

struct StepShare {
  StepPart part{};
  std::string_view label;
  double seconds = 0;
};

// In the order of StepPart, zeros included. The seconds sum to the step's unless the other parts exceed it; then the
// bubble is 0.
std::array<StepShare, step_parts> split_step(const PlannedStep& step);

struct MemoryName {
  MemoryCategory category{};
  std::string_view key;    // in JSON
  std::string_view label;  // in text and pages
};

// Every category, in the order of MemoryCategory.
inline constexpr std::array<MemoryName, memory_categories> memory_names = {{
    {MemoryCategory::weights, "weights", "weights"},
    {MemoryCategory::gradients, "gradients", "gradients"},
    {MemoryCategory::master_weights, "master_weights", "master weights"},
    {MemoryCategory::optimizer, "optimizer", "optimizer"},
    {MemoryCategory::activations, "activations", "activations"},
    {MemoryCategory::buffers, "buffers", "buffers"},
    {MemoryCategory::communication, "communication", "communication"},
    {MemoryCategory::framework, "framework", "framework"},
}};

}  // namespace llmtrain
