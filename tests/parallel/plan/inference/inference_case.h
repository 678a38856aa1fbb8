// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/recipe/recipe_io.h"
#include "parallel/plan/inference/inference_plan.h"
#include "tests/support/source_folder.h"

namespace llmtrain::inference_case {

inline std::filesystem::path recipes() { return test::source_folder() / "recipes"; }

inline Recipe bundled(const std::string& name, const std::vector<Override>& overrides = {}) {
  return read_recipe(recipes() / (name + ".json"), overrides);
}

inline ClusterProfile profile_of(const Recipe& recipe) {
  ClusterProfile profile = load_profile(recipe.cluster.profile, recipes() / "clusters");
  profile.program = load_program(recipe.cluster.program, recipes() / "programs", profile.device.kind);
  return profile;
}

inline ServingRequest request_of(const std::string& text) {
  const std::vector<std::string> texts = {text};
  return parse_request("--inference", texts);
}

}  // namespace llmtrain::inference_case
