// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/recipe/recipe.h"
#include "parallel/layout/streamed_weights.h"
#include "parallel/plan/inference/served_pass.h"
#include "parallel/plan/inference/serving_request.h"
#include "parallel/plan/profile/cluster_profile.h"

namespace llmtrain {

// The weights that each pass of one device reads from the host's memory or its disk, layer by layer and while it
// computes, as the program reads them (parallel/engine/weight_stream.h): a pass takes as long as the longer of the two.
struct WeightReads {
  StreamedWeights weights{};
  double bytes_per_second = 0;
  bool cuts_prompts = false;  // reads each prompt by itself, in parts of prompt_chunk tokens

  // How many passes over the layers this one is made of, and how long it takes to read their weights.
  double passes(const ServedPass& pass) const;
  double seconds(const ServedPass& pass) const {
    return passes(pass) * static_cast<double>(weights.bytes_per_pass) / bytes_per_second;
  }
  // Until the first layer is there, which nothing hides where a device has waited for requests.
  double first_seconds() const { return static_cast<double>(weights.first_bytes()) / bytes_per_second; }
};

// None where the request has all weights in memory. Throws Error(bad_recipe) that names the key where weights cannot be
// read so, or the profile states no such link.
std::optional<WeightReads> weight_reads(const Recipe& recipe, const ClusterProfile& profile,
                                        const ServingRequest& request);

}  // namespace llmtrain
