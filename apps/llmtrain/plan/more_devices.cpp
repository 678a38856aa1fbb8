// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/more_devices.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>

#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/machine/profiles.h"
#include "apps/llmtrain/plan/recipe_file.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/units.h"
#include "core/recipe/rules/rules.h"
#include "parallel/plan/planner/planner.h"

namespace llmtrain::app {
namespace {

// From 1 device to 1024: the neighbours of each are priced, which takes up to half a second.
constexpr int most_doublings = 10;

// The recipe with as many data ranks as fill these devices.
Recipe on_devices(const Recipe& recipe, std::int64_t devices, std::int64_t per_node) {
  Recipe other = recipe;
  other.parallel.data = devices / ranks_per_replica(recipe.parallel);
  if (recipe.launch.ranks) other.launch.ranks = devices;
  other.cluster.nodes = std::max<std::int64_t>(1, devices / per_node);
  return other;
}

// What is to be set for it, and `change`, which may say another number of data ranks.
std::string settings_of(const Recipe& recipe, const Recipe& other, const std::string& change) {
  std::string settings;
  const auto set = [&](const std::string& setting) { settings += (settings.empty() ? "--set " : " --set ") + setting; };
  if (other.launch.ranks != recipe.launch.ranks) set(fmt::format("launch.ranks={}", *other.launch.ranks));
  if (other.cluster.nodes != recipe.cluster.nodes) set(fmt::format("cluster.nodes={}", other.cluster.nodes));
  // Left open it follows from the devices.
  const bool is_open = !recipe.parallel.data && (recipe.launch.ranks || other.cluster.nodes != recipe.cluster.nodes);
  if (!is_open && change.find("parallel.data=") == std::string::npos)
    set(fmt::format("parallel.data={}", *other.parallel.data));
  if (!change.empty()) set(change);
  return settings;
}

struct FittingPlan {
  std::string change;  // beside the devices
  bool is_tight = false;
};

// The recipe as it is or, where that does not fit or is tight, with the first change that has room; else a tight one.
std::optional<FittingPlan> fitting_plan(const Recipe& recipe, const ClusterProfile& profile) {
  try {
    const Plan plan = make_plan(recipe, profile);
    if (plan.report.fits && verdict_of(plan.report) == MemoryVerdict::fits) return FittingPlan{};
    const auto changes = suggest(plan, profile);
    const auto roomy = std::ranges::find(changes, false, &PlanSuggestion::is_tight);
    if (roomy != changes.end()) return FittingPlan{roomy->change, false};
    if (plan.report.fits) return FittingPlan{"", true};
    if (!changes.empty()) return FittingPlan{changes.front().change, true};
  } catch (const Error&) {
    // The batch cannot be shared by as many.
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> devices_that_fit(const Plan& plan, const ClusterProfile& profile) {
  const Recipe& recipe = plan.report.recipe;
  const Mesh& mesh = plan.report.mesh;
  // The ranks of a processor share its memory: more of them need other nodes.
  const std::int64_t per_node = profile.device.kind == DeviceKind::cpu ? mesh.world() : mesh.devices_per_node;
  const std::string too_few =
      fmt::format("{} {} not enough", format_number_of(mesh.world(), "device"), mesh.world() == 1 ? "is" : "are");
  std::string tight;
  for (int doublings = 1; doublings <= most_doublings; ++doublings) {
    const std::int64_t devices = mesh.world() << doublings;
    const Recipe other = on_devices(recipe, devices, per_node);
    const auto fitting = fitting_plan(other, profile);
    if (!fitting) continue;
    const std::string settings = settings_of(recipe, other, fitting->change);
    if (!fitting->is_tight)
      return tight.empty() ? fmt::format("{}, {} are: {}", too_few, devices, settings)
                           : fmt::format("{}. {} have room: {}", tight, devices, settings);
    if (tight.empty())
      tight = fmt::format("{}, {} are, but tight, so that memory may not be: {}", too_few, devices, settings);
  }
  return tight.empty() ? std::nullopt : std::optional(tight);
}

std::optional<std::string> shortage_of_memory(const Plan& plan, const ClusterProfile& profile) {
  const PlanReport& report = plan.report;
  if (report.fits) return std::nullopt;
  const PlannedRank& fullest = fullest_rank(report);
  const auto text = [](double bytes) { return format_bytes(static_cast<std::int64_t>(bytes)); };
  auto changes = suggest(plan, profile);
  if (changes.empty()) changes = suggest_host(plan, profile);
  const std::string cure = changes.empty() ? devices_that_fit(plan, profile).value_or(no_change_fits)
                                           : "the cheapest change that fits: --set " + changes.front().change;
  // Where memory is hard, a plan must leave room for what plans err by.
  const bool is_tight = verdict_of(report) == MemoryVerdict::tight;
  const std::string error = is_tight ? ", from which plans err by " + margin_text(*report.accuracy.memory) : "";
  return fmt::format("rank {} needs {}, and a rank has {} (profile {}){}; {}", fullest.rank, text(fullest.peak_bytes),
                     text(report.device_memory_bytes), report.profile, error, cure);
}

void require_hard_memory(const std::string& file, const std::shared_ptr<const Layout>& layout) {
  // No profile that is found says what of a machine's memory its system needs.
  if (layout->recipe().cluster.profile == "auto") return;
  const ClusterProfile profile = profile_of(layout->recipe());
  if (!profile.device.has_hard_memory) return;
  if (const auto shortage = shortage_of_memory(make_plan(layout, profile), profile))
    throw Error(ExitCode::bad_recipe, fmt::format("{}: a process that takes more memory than {} has is ended: {}", file,
                                                  profile.name, *shortage));
}

void check_job(const std::string& file, const Recipe& recipe) {
  if (recipe.cluster.profile == "auto") return;
  const ClusterProfile profile = profile_of(recipe);
  const auto layout = named_with_file(file, [&] { return lay_out(recipe, profile); });
  require_trained_tokens(layout->graph(), recipe, file);
  if (const auto shortage = shortage_of_memory(make_plan(layout, profile), profile))
    log().warn("{}: this job may not fit: {}", file, *shortage);
}

}  // namespace llmtrain::app
