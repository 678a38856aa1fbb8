// SPDX-License-Identifier: Apache-2.0
#include "planner_case.h"
#include "tests/support/source_folder.h"

#include <algorithm>
#include <filesystem>

namespace llmtrain::test {
namespace {

constexpr const char* small_text = R"({
  "model": {"architecture": "gpt2", "layers": 4, "hidden_size": 1024, "heads": 16, "vocab_size": 8192,
            "max_sequence_length": 512},
  "batch": {"global": 16, "micro": 1},
  "training": {"steps": 100},
  "precision": {"compute": "fp16", "gradients": "fp32"},
  "cluster": {"profile": "v100-32gb", "nodes": 1, "devices_per_node": 8, "device": "cuda"}
})";

}  // namespace

std::filesystem::path recipes() { return source_folder() / "recipes"; }

ClusterProfile profile(const std::string& name) { return load_profile(name, recipes() / "clusters"); }

ClusterProfile profile_of(const Recipe& recipe) {
  ClusterProfile named = profile(recipe.cluster.profile);
  named.program = load_program(recipe.cluster.program, recipes() / "programs", named.device.kind);
  return named;
}

Recipe paper(const std::string& name, const std::vector<Override>& overrides) {
  return read_recipe(recipes() / "papers" / (name + ".json"), overrides);
}

std::vector<std::string> paper_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(recipes() / "papers"))
    names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

Recipe small_gpt(const std::vector<Override>& overrides) { return parse_recipe(small_text, "small", ".", overrides); }

double peak_bytes(const PlanReport& report) {
  return std::ranges::max_element(report.ranks, {}, &PlannedRank::peak_bytes)->peak_bytes;
}

}  // namespace llmtrain::test
