// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/recipe/recipe_io.h"

namespace llmtrain::app {

// What a plan sets beside the overrides of those who call the program.
struct PlannedOverrides {
  std::vector<Override> all;
  bool derives_data = false;  // whether the file's data ranks have given way to its overridden degrees
};

// A file's data ranks go with its other degrees: with other ones they would be refused, or make another number of
// ranks. So where an override changes tensor, pipeline or context ranks, and none says how many data ranks, devices or
// nodes there are, data ranks are what the other degrees leave of the file's ranks, if these are more than one. Runs do
// not call this: they have the ranks that they are told. Throws Error where the file cannot be read, where the rules
// refuse it with the overrides, and where the other degrees do not divide its ranks.
PlannedOverrides with_derived_data(const std::string& file, const std::vector<Override>& overrides);

}  // namespace llmtrain::app
