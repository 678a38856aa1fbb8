// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/plan.h"

#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/data/epochs.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/machine/machine_profile.h"
#include "apps/llmtrain/machine/profiles.h"
#include "apps/llmtrain/plan/comparison.h"
#include "apps/llmtrain/plan/derived_data.h"
#include "apps/llmtrain/plan/explain.h"
#include "apps/llmtrain/plan/fp8_products.h"
#include "apps/llmtrain/plan/inference.h"
#include "apps/llmtrain/plan/limited_run.h"
#include "apps/llmtrain/plan/more_devices.h"
#include "apps/llmtrain/plan/policies.h"
#include "apps/llmtrain/plan/price.h"
#include "apps/llmtrain/plan/recipe_file.h"
#include "apps/llmtrain/plan/search.h"
#include "apps/llmtrain/plan/sweep.h"
#include "apps/llmtrain/plan/target.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/units.h"
#include "core/machine/processor.h"
#include "core/recipe/recipe_io.h"
#include "parallel/plan/cost/priced_layout.h"
#include "parallel/plan/planner/memory_limit.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/planner/split_prices.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/profile/named_file.h"
#include "parallel/plan/report/html/report_html.h"
#include "parallel/plan/report/plan.h"
#include "parallel/plan/report/report.h"
#include "parallel/plan/report/trace.h"

namespace llmtrain::app {
namespace {

struct PlanOptions {
  std::string recipe;
  std::string other_recipe;
  std::optional<std::string> explained;
  std::vector<Override> overrides;
  std::optional<std::string> ranks;
  std::optional<std::string> program, price;
  bool search = false;
  std::optional<double> policies;
  std::vector<std::string> inference;
  std::vector<std::string> sweep;
  std::optional<std::string> target;
  std::optional<std::string> output;
  PlanOutputs outputs;
};

// What people who chose bf16 for its speed should know.
std::optional<std::string> bf16_saves_no_time(const Recipe& recipe, const ClusterProfile& profile) {
  if (recipe.precision.compute != DataType::bf16 || profile.device.kind != DeviceKind::cpu ||
      has_bf16_instructions(processor_features()))
    return std::nullopt;
  return "precision.compute: this processor has no instructions for bf16, and widens it to fp32 in products: it saves "
         "memory and traffic, but no time beside \"fp32\"";
}

// With "auto" the profile may be of a machine without GPUs, on which the plan of a GPU says nothing.
std::optional<std::string> other_device(const Recipe& recipe, const ClusterProfile& profile) {
  const DeviceKind asked = recipe.cluster.device;
  if (asked == DeviceKind::automatic || asked == profile.device.kind) return std::nullopt;
  if (asked == DeviceKind::cuda)
    return fmt::format(
        "cluster.device: \"cuda\", but the profile {} is of a processor, whose figures these are; name a "
        "GPU's, as in --set cluster.profile=h100-sxm-80gb",
        profile.name);
  return fmt::format(
      "cluster.device: \"cpu\", but the profile {} is of a GPU, whose figures these are; name a "
      "processor's, as in --set cluster.profile=cpu",
      profile.name);
}

Plan plan_of(std::shared_ptr<const Layout> layout, const ClusterProfile& profile, Timeline timeline) {
  Plan plan = make_plan(std::move(layout), profile, timeline);
  if (auto warning = fp8_does_not_pay(plan, profile)) plan.report.warnings.push_back(*std::move(warning));
  for (std::string& warning : products_without_fp8_gain(plan, profile))
    plan.report.warnings.push_back(std::move(warning));
  for (std::string& reason : not_run_as_planned(plan.report.recipe, plan.layout->graph()))
    plan.report.warnings.push_back(std::move(reason));
  if (auto warning = other_device(plan.report.recipe, profile)) plan.report.warnings.push_back(*std::move(warning));
  if (auto note = bf16_saves_no_time(plan.report.recipe, profile)) plan.report.warnings.push_back(*std::move(note));
  return plan;
}

// Without any profile a run still starts; it only has no plan to compare with.
bool has_no_profile(const Recipe& recipe) {
  return recipe.cluster.profile == "auto" && names_in(profiles_folder()).empty();
}

std::int64_t devices_per_node_of_run(const Recipe& recipe, const RunLaunch& launch) {
  if (recipe.cluster.devices_per_node) return *recipe.cluster.devices_per_node;
  // A launcher has already placed the ranks, whatever the profile says.
  if (!launch.launcher.empty()) return std::max<std::int64_t>(1, launch.ranks_here);
  if (has_no_profile(recipe)) return std::max<std::int64_t>(1, launch.ranks / recipe.cluster.nodes);
  return devices_per_node(recipe, profile_of(recipe));
}

// What a run measures: the memory of the first rank's process. Where the ranks are threads of one process, its
// libraries count once, and the tensors of every rank.
double process_bytes(const PlanReport& report, const RunLaunch& launch) {
  if (launch.backend != CommunicationBackend::local) return report.ranks.front().peak_bytes;
  // Each rank of the report stands for so many equal ones.
  const double lanes = static_cast<double>(launch.ranks) / static_cast<double>(report.ranks.size());
  double bytes = report.ranks.front().bytes[MemoryCategory::framework];
  for (const PlannedRank& rank : report.ranks)
    bytes += lanes * (rank.peak_bytes - rank.bytes[MemoryCategory::framework]);
  return bytes;
}

// Before the ranks allocate: a process that the system ends for its memory says nothing.
void warn_of_memory(const Plan& plan, const ClusterProfile& profile) {
  if (const auto shortage = shortage_of_memory(plan, profile)) log().warn("this run may not fit: {}", *shortage);
}

int search(const PlanOptions& options, const Recipe& recipe, bool derives_data) {
  SearchOutputs outputs;
  outputs.json = options.outputs.json;
  outputs.derives_data = derives_data;
  outputs.best = options.output.value_or(std::filesystem::path(options.recipe).stem().string() + ".best.json");
  return named_with_file(options.recipe, [&] { return show_search(options.recipe, recipe, outputs); });
}

int plan(const PlanOptions& options) {
  std::vector<Override> overrides = options.overrides;
  // As overrides: the flags are checked as their keys are, and win over the file.
  if (options.ranks) overrides.push_back("launch.ranks=" + *options.ranks);
  if (options.program) overrides.push_back("cluster.program=" + *options.program);
  if (options.price)
    for (Override& change : price_overrides(*options.price)) overrides.push_back(std::move(change));
  if (!options.inference.empty())
    return show_inference(read_counted_recipe(options.recipe, overrides),
                          {options.inference, options.search, options.target}, options.outputs);
  if (!options.other_recipe.empty())
    return show_comparison(options.recipe, options.other_recipe, overrides, options.outputs);
  if (options.explained) return show_explanation(options.recipe, overrides, *options.explained, options.outputs);
  if (!options.sweep.empty()) return show_sweep(options.recipe, overrides, options.sweep, options.outputs);
  if (options.target) return show_target(options.recipe, overrides, *options.target, options.outputs);
  const PlannedOverrides planned = with_derived_data(options.recipe, overrides);
  const Recipe recipe = read_counted_recipe(options.recipe, planned.all);
  if (options.search) return search(options, recipe, planned.derives_data);
  if (options.policies) return show_policies(options.recipe, recipe, *options.policies, options.outputs);
  PlanOutputs outputs = options.outputs;
  outputs.derives_data = planned.derives_data;
  return show_plan(options.recipe, recipe, outputs);
}

}  // namespace

int show_plan(const std::string& file, const Recipe& recipe, const PlanOutputs& outputs) {
  measure_machine(recipe);
  const ClusterProfile profile = profile_of(recipe);
  // Recording the timeline of a large plan takes time and memory: only where it is drawn.
  const bool draws = outputs.html || outputs.trace;
  const auto layout = named_with_file(file, [&] { return lay_out(recipe, profile); });
  Plan plan = plan_of(layout, profile, draws ? Timeline::record : Timeline::leave_out);
  plan.report.derives_data = outputs.derives_data;
  if (recipe.memory.limit) plan.report.limits = limit_curve(recipe, profile, devices_per_node(recipe, profile));
  plan.report.suggestions = suggest(plan, profile);
  if (!plan.report.fits && plan.report.suggestions.empty()) {
    plan.report.suggestions = suggest_host(plan, profile);
    if (const auto more = devices_that_fit(plan, profile))
      plan.report.warnings.push_back(*more);
    else if (plan.report.suggestions.empty())
      plan.report.warnings.emplace_back(no_change_fits);
  }
  if (outputs.html) write_file_atomically(*outputs.html, report_html(plan));
  if (outputs.trace) write_trace(*outputs.trace, plan);
  outputs.json ? write_json(report_json(plan.report)) : write_result(report_text(plan.report, style_of_output()));
  if (outputs.html) log().info("the plan as a web page: {}", *outputs.html);
  if (outputs.trace) log().info("the plan's timeline for ui.perfetto.dev: {}", *outputs.trace);
  return static_cast<int>(ExitCode::done);
}

// What a plan decides of it.
Recipe settled_for_run(const Recipe& recipe, std::int64_t devices) {
  Recipe settled = with_settled_products(recipe, devices);
  return settled.memory.limit ? settle_memory_limit(settled, profile_of(settled), devices) : settled;
}

std::shared_ptr<const Layout> layout_for_run(const std::string& file, const Recipe& recipe, const RunLaunch& launch) {
  const std::int64_t devices = devices_per_node_of_run(recipe, launch);
  return named_with_file(file, [&] {
    // Once the recipe is known to be right, and before the ranks begin.
    make_mesh(recipe, devices);
    measure_machine(recipe);
    Partition partition = Partition::make(settled_for_run(recipe, devices), devices);
    // A profile may be missing; then what is open is tried in its own order.
    if ((partition.exchange.are_open() || partition.mesh.switches_experts) && !has_no_profile(recipe))
      settle_by_price(partition, share_devices(profile_of(recipe), partition.mesh));
    return std::make_shared<const Layout>(std::move(partition));
  });
}

MemoryAdvice memory_advice_for_run(std::shared_ptr<const Layout> layout) {
  return [layout = std::move(layout)]() -> std::string {
    if (has_no_profile(layout->recipe())) return "";
    ClusterProfile profile = profile_of(layout->recipe());
    const PlanReport planned = make_plan(layout, profile).report;
    // A run that had been planned to fit shares the memory with other programs, or the plan was wrong: only what needs
    // clearly less can help.
    constexpr double clearly_less = 0.9;
    const double peak = fullest_rank(planned).peak_bytes;
    if (planned.fits && planned.device_memory_bytes > 0)
      profile.device.memory_bytes *= clearly_less * peak / planned.device_memory_bytes;
    const Plan without_room = make_plan(layout, profile);
    auto changes = suggest(without_room, profile);
    if (changes.empty()) changes = suggest_host(without_room, profile);
    if (changes.empty())
      return "no change of this recipe fits so many devices; llmtrain plan looks for a number that does";
    const auto text = [](double bytes) { return format_bytes(static_cast<std::int64_t>(bytes)); };
    return fmt::format("the cheapest change that fits: --set {}, with which a rank needs {} instead of {}",
                       changes.front().change, text(changes.front().peak_bytes), text(peak));
  };
}

std::optional<RunPlan> plan_for_run(std::shared_ptr<const Layout> layout, const RunLaunch& launch) {
  if (has_no_profile(layout->recipe())) return std::nullopt;
  const ClusterProfile profile = profile_of(layout->recipe());
  const Plan plan = plan_of(std::move(layout), profile, Timeline::record);
  warn_of_memory(plan, profile);
  if (const auto note = bf16_saves_no_time(plan.report.recipe, profile)) log().info(*note);
  RunPlan summary;
  summary.profile = plan.report.profile;
  summary.step_seconds = plan.report.step.seconds;
  summary.peak_bytes = fullest_rank(plan.report).peak_bytes;
  summary.process_bytes = process_bytes(plan.report, launch);
  const PlannedRank& first = plan.report.ranks.front();
  const double not_tensors = bytes_beside_tensors(plan, first, profile);
  summary.tensor_bytes = first.peak_bytes - not_tensors;
  summary.most_tensor_bytes = first.fallback_peak_bytes.value_or(first.peak_bytes) - not_tensors;
  summary.json = report_json(plan.report);
  summary.page = report_html(plan);
  return summary;
}

namespace {

// Flags that go with all others: for keys of the recipe, and for JSON.
void add_common_flags(CLI::App& command, PlanOptions& options) {
  command.add_option("--ranks", options.ranks, "Devices that train together (launch.ranks)")->type_name("N");
  command.add_option("--program", options.program, "Software whose run is priced (cluster.program)")
      ->type_name("PROGRAM");
  command
      .add_option("--price", options.price,
                  "Price of a device for an hour, as 2.5 or \"2.5 EUR\" (cluster.price_per_device_hour)")
      ->type_name("PRICE");
  command.add_flag("--json", options.outputs.json, "Print the whole report as JSON");
}

}  // namespace

void add_plan(CLI::App& program, Action& action) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* command = program.add_subcommand("plan", "Estimates memory, time and cost of a recipe; needs no GPU");
  add_recipe_argument(*command, options->recipe)->required();
  CLI::Option* other =
      add_recipe_argument(*command, options->other_recipe, "OTHER", "Another recipe, to be compared with the first");
  add_set_flag(*command, options->overrides);
  add_common_flags(*command, *options);
  CLI::Option* search = command->add_flag("--search", options->search, "Search layouts for its model and batch");
  command->add_option("--output", options->output, "Output file of the best recipe (default: NAME.best.json)")
      ->type_name("FILE")
      ->needs(search);
  CLI::Option* html =
      command->add_option("--html", options->outputs.html, "Write a page with timeline and memory")->type_name("FILE");
  CLI::Option* trace =
      command->add_option("--trace", options->outputs.trace, "Write the timeline for Perfetto")->type_name("FILE");
  CLI::Option* sweep = command
                           ->add_option("--sweep", options->sweep,
                                        "Plan with each of these values; repeat it for a table of several keys")
                           ->type_name("KEY=V,V")
                           ->allow_extra_args(false);
  CLI::Option* target =
      command
          ->add_option(
              "--target", options->target,
              "Say how many devices finish the run in this time, as 30d or 12h, or serve so fast, as per_token=30ms")
          ->type_name("TIME");
  CLI::Option* explain =
      command
          ->add_option("--explain", options->explained,
                       "Say why a run, or a measurement published:NAME, is faster or slower, key by key")
          ->type_name("SOURCE");
  CLI::Option* policies =
      command
          ->add_option("--policies", options->policies,
                       "Compare what goes to the host within a limit, as memory.limit says it, policy by policy")
          ->type_name("LIMIT");
  CLI::Option* inference =
      command
          ->add_option("--inference", options->inference,
                       "Plan how the model is served, not its training: KEY=VALUE, as in batch=16,prompt=1024")
          ->type_name("REQUEST")
          ->allow_extra_args(false);
  // Its page shows a search.
  inference->excludes(other, sweep, explain, trace);
  search->excludes(html, trace);
  sweep->excludes(search, trace);
  // Two recipes are compared as text or JSON; pages and timelines show one.
  other->excludes(search, sweep, html, trace);
  explain->excludes(other, target, search, sweep, html, trace);
  target->excludes(other, search, sweep, html, trace);
  policies->excludes(other, target, explain, inference, search, sweep, html, trace);
  command->footer(
      "Examples:\n  llmtrain plan recipes/papers/gpt3-175b.json\n"
      "  llmtrain plan recipe.json --set parallel.zero_stage=1 --html plan.html\n"
      "  llmtrain plan recipe.json other.json\n"
      "  llmtrain plan recipe.json --sweep parallel.tensor=1,2,4,8 --sweep batch.micro=1,2");
  command->callback([options, &action] { action = [options] { return plan(*options); }; });
}

}  // namespace llmtrain::app
