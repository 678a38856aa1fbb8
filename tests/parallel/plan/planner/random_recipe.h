// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/recipe/recipe_io.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain::test {

template <class Value>
Override set(const std::string& key, Value value) {
  return key + "=" + std::to_string(value);
}

// Random degrees, schedule, precision, program and memory keys of small_gpt(): many combinations are illegal. Called
// inside a property.
std::vector<Override> random_layout();

// The plan of small_gpt() with these keys on its own profile, or on that profile as `change` leaves it; none if a rule
// refuses the recipe, by the name of a key.
std::optional<Plan> plan_if_legal(const std::vector<Override>& layout, Timeline timeline = Timeline::leave_out);
std::optional<Plan> plan_if_legal(const std::vector<Override>& layout, void (*change)(ClusterProfile&));

}  // namespace llmtrain::test
