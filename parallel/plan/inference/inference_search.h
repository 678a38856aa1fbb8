// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "parallel/plan/inference/inference_plan.h"

namespace llmtrain {

// What a generated token costs while others are generated with it: devices · time ÷ sequences.
double token_cost(const InferencePlan& plan);

// Plans over numbers of devices and of sequences.
struct InferenceSearch {
  std::vector<InferencePlan> plans;  // that fit: for each pair of numbers the fastest, by devices and then by sequences
  // Which of them no other is better than in one of time per token and cost per token and as good in the other: the
  // front between latency and cost (Pope et al., arXiv 2211.05102, figure 1), by time.
  std::vector<std::size_t> front;
};

// Tries powers of two: up to `most_devices`, or the request's number alone where it names one, and up to `most_batch`
// sequences. Throws Error(bad_recipe) where nothing can be, or nothing fits.
InferenceSearch search_inference(const InferencePlanner& planner, const ServingRequest& request,
                                 std::int64_t most_devices, std::int64_t most_batch);

// The fronts of plans: of equal ones the first.
std::vector<std::size_t> front_of(const std::vector<InferencePlan>& plans);

// What a plan must reach; 0: anything will do.
struct InferenceTarget {
  double first_token_seconds = 0;  // at most
  double per_token_seconds = 0;    // at most
  double tokens_per_second = 0;    // at least
};
bool meets(const InferencePlan& plan, const InferenceTarget& target);

// The fastest plan of each power of two of devices, up to `most_devices`, that can be; empty where none can.
std::vector<InferencePlan> plans_by_devices(const InferencePlanner& planner, const ServingRequest& request,
                                            std::int64_t most_devices);

}  // namespace llmtrain
