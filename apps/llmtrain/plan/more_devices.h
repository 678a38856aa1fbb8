// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/recipe/recipe.h"
#include "parallel/layout/layout.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain::app {

// What is said where neither a change nor more devices are found.
inline constexpr const char* no_change_fits = "no change of it fits; llmtrain plan --search tries all layouts";

// On how many devices a plan fits that does not and for which suggest() finds nothing, with more data ranks and where
// they alone are not enough with what suggest() finds then, as a sentence with the settings. The number of devices
// doubles from one attempt to the next until one has room; before it is found, one that is tight is named as such. None
// where no number that shares the batch evenly is enough.
std::optional<std::string> devices_that_fit(const Plan& plan, const ClusterProfile& profile);

// What the fullest rank of a plan that does not fit needs and has, and the cheapest change or the devices that fit.
// None of one that fits.
std::optional<std::string> shortage_of_memory(const Plan& plan, const ClusterProfile& profile);

// Before a run starts its ranks: throws Error(bad_recipe) where a process that takes more than the profile's device has
// is ended, and the run is not planned to have room.
void require_hard_memory(const std::string& file, const std::shared_ptr<const Layout>& layout);

// Before a job waits for its turn: throws Error(bad_recipe) for what its run would refuse of the model, and warns where
// its devices have too little memory, as `plan` says it. Of profile "auto" nothing is known but the machine that asks.
void check_job(const std::string& file, const Recipe& recipe);

}  // namespace llmtrain::app
