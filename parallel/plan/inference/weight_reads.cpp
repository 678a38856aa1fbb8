// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/inference/weight_reads.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "parallel/plan/cost/disk_cost.h"

namespace llmtrain {
namespace {

[[noreturn]] void refuse(const ServingRequest& request, const std::string& why) {
  throw Error(ExitCode::bad_recipe,
              fmt::format("inference: weights_from \"{}\": {}", word_of(request.weights_from), why));
}

// From where the weights are to where the device computes.
double bandwidth(const ClusterProfile& profile, const ServingRequest& request) {
  const bool is_host = profile.device.kind == DeviceKind::cpu;
  const double link = profile.device.pcie_bandwidth;
  if (request.weights_from == WeightsPlace::host && is_host)
    refuse(request, "a processor computes in the host's memory; use \"disk\"");
  if (!is_host && link == 0)
    refuse(request,
           fmt::format("profile \"{}\" does not state device.pcie_bandwidth, the link to the host; set it in a "
                       "copy of the profile",
                       profile.name));
  if (request.weights_from == WeightsPlace::host) return link;
  const double disk = disk_bandwidth(profile);
  return is_host ? disk : std::min(disk, link);
}

}  // namespace

double WeightReads::passes(const ServedPass& pass) const {
  if (!cuts_prompts || !pass.is_prefill()) return 1;
  const std::int64_t parts = (pass.tokens + StreamedWeights::prompt_chunk - 1) / StreamedWeights::prompt_chunk;
  return as_real(pass.sequences) * as_real(parts);
}

std::optional<WeightReads> weight_reads(const Recipe& recipe, const ClusterProfile& profile,
                                        const ServingRequest& request) {
  if (request.weights_from == WeightsPlace::memory) {
    if (request.weight_memory > 0)
      throw Error(ExitCode::bad_recipe,
                  "inference: weight_memory: all weights are in memory; add weights_from=disk, or leave it out");
    return std::nullopt;
  }
  if (request.weights != ServedType::compute)
    refuse(request, fmt::format("weights are read as precision.compute has them; leave weights \"{}\" out",
                                word_of(request.weights)));
  if (const std::string why = not_streamed(recipe); !why.empty()) refuse(request, why);
  return WeightReads{streamed_weights(partition_by_blocks(recipe), request.weight_memory, "inference: weight_memory"),
                     bandwidth(profile, request), profile.device.kind == DeviceKind::cpu};
}

}  // namespace llmtrain
