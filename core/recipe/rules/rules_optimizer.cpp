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

// What the update of one stage would have to know of the gradients of others.
Verdict check_known_gradients(const Recipe& recipe) {
  const TrainingRecipe& training = recipe.training;
  if (training.clip_norm != 0)
    return refuse_true("clipping by the norm of all gradients comes after the backward", "training.clip_norm 0");
  if (training.spikes.loss != 0 || training.spikes.gradient_norm != 0)
    return refuse_true("an update that has been made is not skipped for a spike",
                       "training.spikes.loss and gradient_norm 0");
  if (training.skip_limit != 1)
    return refuse_true(
        "an update that has been made is not skipped for a norm that is not finite, which ends the "
        "run or rolls it back at once",
        "training.skip_limit 1, its default then");
  if (recipe.precision.compute == DataType::fp16)
    return refuse_true("updates of fp16 are skipped where a gradient overflows",
                       "precision.compute \"bf16\" or \"fp32\"");
  return {};
}

Verdict check_update_in_backward(const Recipe& recipe, const Known&) {
  if (!recipe.training.update_in_backward) return {};
  if (auto refusal = check_known_gradients(recipe)) return refusal;
  if (stores_fp8(recipe.precision.fp8_level))
    return refuse_true("FP8 gradients and states have scales that follow from all of a step",
                       "precision.fp8_level \"off\" or \"O0\"");
  if (recipe.kernels.cuda_graphs)
    return refuse_true("captured passes write gradients to memory of their own", "kernels.cuda_graphs false");
  return {};
}

}  // namespace

std::vector<Rule> optimizer_rules() {
  const std::string_view name = "/training/optimizer/name";
  return {
      {name, {"/model/lora"}, check_matrices},
      {name, {"/precision/fp8_level"}, check_state_types},
      {"/training/update_in_backward",
       {"/training/clip_norm", "/training/spikes/loss", "/training/spikes/gradient_norm", "/training/skip_limit",
        "/precision/compute", "/precision/fp8_level", "/kernels/cuda_graphs"},
       check_update_in_backward},
  };
}

}  // namespace llmtrain
