// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/exactness.h"

#include <string>
#include <variant>

#include "core/base/error.h"

namespace llmtrain {
namespace {

// Reasons; empty: none.
std::string reason_against_device(const LocalModel& model) {
  if (model.device().is_cpu()) return {};
  return "/cluster/device: a GPU's libraries sum in other orders for other numbers of tokens; --set "
         "cluster.device=cpu";
}

std::string reason_against_rows_apart(const LocalModel& model) {
  if (multiplies_fp8(model.recipe().precision.fp8_level))
    return "/precision/fp8_level: scales of FP8 products are of all tokens of a prompt, and of each one behind it; "
           "--set precision.fp8_level=off multiplies in precision.compute";
  return reason_against_device(model);
}

std::string reason_against(const LocalModel& model) {
  const Recipe& recipe = model.recipe();
  if (std::string reason = reason_against_device(model); !reason.empty()) return reason;
  if (multiplies_fp8(recipe.precision.fp8_level) && model.layout().mesh().tensor > 1)
    return "/parallel/tensor: ranks that share FP8 products have scales of all tokens of a pass; use one tensor rank";
  if (recipe.model.moe && recipe.model.moe->capacity_factor != 0)
    return "/model/moe/capacity_factor: which tokens experts have room for depends on what is beside them; --set "
           "model.moe.capacity_factor=0";
  for (const Block& block : model.graph().blocks)
    if (std::holds_alternative<BodySettings>(block.settings))
      return "/model/architecture: some products of \"" + block.name +
             "\", as of an encoder, are of all tokens of a pass";
  return {};
}

void refuse(const std::string& reason, std::string_view asker) {
  if (!reason.empty())
    throw Error(ExitCode::bad_recipe, reason + "; " + std::string(asker) + " does not apply, leave it out");
}

}  // namespace

void require_exactness(const LocalModel& model, std::string_view asker) { refuse(reason_against(model), asker); }

void require_rows_apart(const LocalModel& model, std::string_view asker) {
  refuse(reason_against_rows_apart(model), asker);
}

}  // namespace llmtrain
