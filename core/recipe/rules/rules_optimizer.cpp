// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

bool is_muon(const Recipe& recipe) { return recipe.training.optimizer.name == OptimizerKind::muon; }

Verdict check_matrices(const Recipe& recipe, const Known&) {
  if (!is_muon(recipe) || !recipe.model.lora) return {};
  return Refusal{"\"muon\" has no matrix to train with model.lora",
                 "its adapters are not orthogonalised; use \"adamw\""};
}

Verdict check_state_types(const Recipe& recipe, const Known&) {
  if (!is_muon(recipe) || !stores_fp8(recipe.precision.fp8_level)) return {};
  return Refusal{"\"muon\" with FP8 gradients or states",
                 "must keep these wider; set precision.fp8_level to \"off\" or \"O0\", or use \"adamw\""};
}

Verdict check_place(const Recipe& recipe, const Known&) {
  if (!is_muon(recipe) || !recipe.memory.offload.moves_states()) return {};
  return Refusal{"\"muon\" with memory.offload.optimizer",
                 "must multiply matrices where the model computes; set memory.offload.optimizer to false, or use "
                 "\"adamw\""};
}

}  // namespace

std::vector<Rule> optimizer_rules() {
  const std::string_view name = "/training/optimizer/name";
  return {
      {name, {"/model/lora"}, check_matrices},
      {name, {"/precision/fp8_level"}, check_state_types},
      {name, {"/memory/offload/optimizer"}, check_place},
  };
}

}  // namespace llmtrain
