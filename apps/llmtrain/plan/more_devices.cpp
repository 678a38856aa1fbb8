// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/more_devices.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>

#include "core/base/error.h"
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

}  // namespace

std::optional<std::string> devices_that_fit(const Plan& plan, const ClusterProfile& profile) {
  const Recipe& recipe = plan.report.recipe;
  const Mesh& mesh = plan.report.mesh;
  // The ranks of a processor share its memory: more of them need other nodes.
  const std::int64_t per_node = profile.device.kind == DeviceKind::cpu ? mesh.world() : mesh.devices_per_node;
  for (int doublings = 1; doublings <= most_doublings; ++doublings) {
    const std::int64_t devices = mesh.world() << doublings;
    const Recipe other = on_devices(recipe, devices, per_node);
    try {
      const Plan more = make_plan(other, profile);
      const auto changes = more.report.fits ? std::vector<PlanSuggestion>() : suggest(more, profile);
      if (!more.report.fits && changes.empty()) continue;
      return fmt::format("{} {} not enough, {} are: {}", format_number_of(mesh.world(), "device"),
                         mesh.world() == 1 ? "is" : "are", devices,
                         settings_of(recipe, other, changes.empty() ? "" : changes.front().change));
    } catch (const Error&) {
      // The batch cannot be shared by as many.
    }
  }
  return std::nullopt;
}

}  // namespace llmtrain::app
