// SPDX-License-Identifier: Apache-2.0
#include "core/graph/marks/saved_modules.h"

#include <spdlog/fmt/fmt.h>

#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/graph/marks/adapter_targets.h"
#include "core/graph/marks/name_patterns.h"

namespace llmtrain {
namespace {

constexpr const char* pointer = "/model/lora/modules_to_save";

std::string module_of(const Parameter& parameter) { return parameter.name.substr(0, parameter.name.rfind('.')); }

NamePatterns patterns_of(const LoraRecipe& recipe) {
  std::vector<std::vector<std::string>> meanings;
  for (const std::string& module : recipe.modules_to_save) meanings.push_back(module_patterns(module));
  return {recipe.modules_to_save, std::move(meanings)};
}

}  // namespace

void mark_saved_modules(Graph& graph) {
  if (!graph.model.lora) return;
  NamePatterns patterns = patterns_of(*graph.model.lora);
  std::set<std::string> modules;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.is_adapter || parameter.has_expert_axis) continue;
    const std::string module = module_of(parameter);
    // Both are asked, so that each pattern is known to be used.
    const bool is_named = patterns.match(module), has_named = patterns.match(parameter.name);
    if (is_named || has_named) modules.insert(module);
  }
  patterns.require_used(pointer, "module outside of the routed experts");
  for (Parameter& parameter : graph.parameters) {
    if (parameter.is_adapter || parameter.has_expert_axis || !modules.contains(module_of(parameter))) continue;
    if (parameter.adapter)
      throw Error(ExitCode::bad_recipe,
                  fmt::format("{}: names {}, which model.lora.targets name, too; a matrix is trained itself or has an "
                              "adapter",
                              pointer, parameter.name));
    parameter.is_saved_module = true;
  }
}

}  // namespace llmtrain
