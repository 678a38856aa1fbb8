// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/warnings.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/units.h"

namespace llmtrain {
namespace {

std::string bytes_text(double bytes) { return format_bytes(static_cast<std::int64_t>(bytes)); }

void warn_of_memory(const PlanSources& sources, const std::vector<PlannedRank>& ranks,
                    std::vector<std::string>& warnings) {
  const double limit = sources.profile.device.memory_bytes;
  const PlannedRank& fullest = *std::ranges::max_element(ranks, {}, &PlannedRank::peak_bytes);
  if (limit <= 0 || fullest.peak_bytes <= limit) return;
  warnings.push_back(fmt::format("does not fit: rank {} needs {} of {}, peak at \"{}\"", fullest.rank,
                                 bytes_text(fullest.peak_bytes), bytes_text(limit), fullest.peak_instruction));
}

void warn_of_bubble(const PlanSources& sources, std::vector<std::string>& warnings) {
  const ScheduleShape& shape = sources.layout.partition().shape;
  // Fewer micro-batches than pipeline ranks leave ranks idle whatever the schedule.
  if (shape.micro_batches >= shape.pipeline) return;
  warnings.push_back(
      fmt::format("{} micro-batches for {} pipeline ranks leave {:.0f} % of the time idle; raise batch.global or lower "
                  "batch.micro",
                  shape.micro_batches, shape.pipeline, 100 * sources.simulation.bubble_fraction));
}

void warn_of_sharing(const PlanSources& sources, std::vector<std::string>& warnings) {
  const double ranks = sources.profile.ranks_per_device;
  if (ranks <= 1) return;
  warnings.push_back(fmt::format(
      "{:.3g} ranks share a device of {}: each is priced with its share of the cores, memory and bandwidth; "
      "set cluster.nodes to the number of machines",
      ranks, sources.profile.name));
}

void warn_of_nodes(const PlanSources& sources, std::vector<std::string>& warnings) {
  const Mesh& mesh = sources.layout.mesh();
  if (mesh.tensor > mesh.devices_per_node) {
    warnings.push_back(
        fmt::format("parallel.tensor: {} ranks do not fit in one node of {} devices: every layer waits "
                    "for the network",
                    mesh.tensor, mesh.devices_per_node));
  }
  // Of one partly used node nobody expects full use; across several nodes it is usually a mistake.
  const std::int64_t idle = (mesh.devices_per_node - mesh.world() % mesh.devices_per_node) % mesh.devices_per_node;
  if (idle > 0 && mesh.world() > mesh.devices_per_node) {
    warnings.push_back(fmt::format("{} devices of the last node are not used", idle));
  }
}

void warn_of_precision(const PlanSources& sources, std::vector<std::string>& warnings) {
  const PeakFlops& peak = sources.profile.device.peak_flops;
  const PrecisionRecipe& precision = sources.layout.recipe().precision;
  if (precision.fp8_level != Fp8Level::off && peak.fp8 == 0) {
    warnings.push_back("precision.fp8_level: " + sources.profile.name +
                       " has no FP8 matrix products: FP8 saves memory and traffic, but no compute time");
  }
  // Profiles require positive rates of these types, so this only concerns profiles made in code.
  const double rate = precision.compute == DataType::bf16   ? peak.bf16
                      : precision.compute == DataType::fp16 ? peak.fp16
                                                            : peak.fp32;
  if (rate > 0) return;
  warnings.push_back("precision.compute: " + sources.profile.name +
                     " does not support this type; it is priced at the fp32 rate");
}

}  // namespace

std::vector<std::string> plan_warnings(const PlanSources& sources, const std::vector<PlannedRank>& ranks) {
  std::vector<std::string> warnings;
  warn_of_memory(sources, ranks, warnings);
  warn_of_bubble(sources, warnings);
  warn_of_sharing(sources, warnings);
  warn_of_nodes(sources, warnings);
  warn_of_precision(sources, warnings);
  return warnings;
}

}  // namespace llmtrain
