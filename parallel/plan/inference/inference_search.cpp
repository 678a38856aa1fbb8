// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/inference/inference_search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "core/base/error.h"
#include "parallel/plan/inference/served_pass.h"

namespace llmtrain {
namespace {

// None where the request cannot be planned so; `why` then says the reason, the first of all.
std::optional<InferencePlan> plan_or_none(const InferencePlanner& planner, const ServingRequest& request,
                                          std::optional<Error>& why) {
  try {
    return planner.plan(request);
  } catch (const Error& error) {
    if (error.code() != ExitCode::bad_recipe) throw;
    if (!why) why = error;
    return std::nullopt;
  }
}

}  // namespace

double token_cost(const InferencePlan& plan) {
  return as_real(plan.devices) * plan.per_token_seconds / as_real(plan.running);
}

std::vector<std::size_t> front_of(const std::vector<InferencePlan>& plans) {
  std::vector<std::size_t> order(plans.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t first, std::size_t second) {
    const InferencePlan &one = plans[first], &other = plans[second];
    if (one.per_token_seconds != other.per_token_seconds) return one.per_token_seconds < other.per_token_seconds;
    return token_cost(one) < token_cost(other);
  });
  // Slower plans belong to it only where they are cheaper than all faster ones.
  std::vector<std::size_t> front;
  double cheapest = std::numeric_limits<double>::infinity();
  for (const std::size_t index : order) {
    if (token_cost(plans[index]) >= cheapest) continue;
    cheapest = token_cost(plans[index]);
    front.push_back(index);
  }
  return front;
}

InferenceSearch search_inference(const InferencePlanner& planner, const ServingRequest& request,
                                 std::int64_t most_devices, std::int64_t most_batch) {
  InferenceSearch search;
  std::optional<Error> why;
  const std::int64_t first = request.devices.value_or(1), last = request.devices.value_or(most_devices);
  for (std::int64_t devices = first; devices <= last; devices *= 2)
    for (std::int64_t batch = 1; batch <= most_batch; batch *= 2) {
      ServingRequest changed = request;
      changed.devices = devices;
      changed.batch = batch;
      if (auto plan = plan_or_none(planner, changed, why); plan && plan->fits) search.plans.push_back(*std::move(plan));
    }
  if (search.plans.empty())
    throw why ? *why
              : Error(ExitCode::bad_recipe,
                      "inference: the model fits no number of devices that was tried; name more "
                      "devices, or smaller types of weights and cache");
  search.front = front_of(search.plans);
  return search;
}

bool meets(const InferencePlan& plan, const InferenceTarget& target) {
  const auto is_within = [](double value, double most) { return most == 0 || value <= most; };
  return plan.fits && is_within(plan.first_token_seconds, target.first_token_seconds) &&
         is_within(plan.per_token_seconds, target.per_token_seconds) &&
         plan.tokens_per_second >= target.tokens_per_second;
}

std::vector<InferencePlan> plans_by_devices(const InferencePlanner& planner, const ServingRequest& request,
                                            std::int64_t most_devices) {
  std::vector<InferencePlan> plans;
  std::optional<Error> why;
  for (std::int64_t devices = 1; devices <= most_devices; devices *= 2) {
    ServingRequest changed = request;
    changed.devices = devices;
    if (auto plan = plan_or_none(planner, changed, why)) plans.push_back(*std::move(plan));
  }
  if (plans.empty() && why) throw *why;
  return plans;
}

}  // namespace llmtrain
