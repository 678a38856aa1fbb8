// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/machine/host_memory.h"
#include "core/recipe/recipe.h"
#include "parallel/layout/layout.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain::app {

// Output of `plan` and `run --dry-run`.
struct PlanOutputs {
  bool json = false;
  bool derives_data = false;        // whether the recipe's data ranks are not those of its file (derived_data.h)
  std::optional<std::string> html;  // files
  std::optional<std::string> trace;
};

// Plans the recipe of a file, prints the summary or JSON on standard output and writes the files. Throws Error.
int show_plan(const std::string& file, const Recipe& recipe, const PlanOutputs& outputs);

// The layout of a recipe that is about to run on the ranks of `launch`; ranks that a launcher has started keep their
// nodes. Throws Error.
std::shared_ptr<const Layout> layout_for_run(const std::string& file, const Recipe& recipe, const RunLaunch& launch);

// What makes the run fit, should its memory run out: planned only when it is asked.
MemoryAdvice memory_advice_for_run(std::shared_ptr<const Layout> layout);

// The plan of a run, for its log and folder. None where there are no profiles to plan with and the recipe names none.
// Throws Error.
std::optional<RunPlan> plan_for_run(std::shared_ptr<const Layout> layout, const RunLaunch& launch);

}  // namespace llmtrain::app
