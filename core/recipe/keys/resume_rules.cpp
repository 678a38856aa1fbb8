// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys/resume_rules.h"

#include <algorithm>
#include <array>

#include "core/json/document.h"
#include "core/recipe/left_out_base.h"

namespace llmtrain {
namespace {

// A change must leave what the run has learned and recorded so far meaningful: later steps may be larger, faster,
// fewer or more, but they train the same model on the same data by the same rule.
constexpr std::array rules{
    ResumeRule{"/$schema", ""},
    ResumeRule{"/name", "it says which run this is"},
    ResumeRule{"/description", ""},
    ResumeRule{"/seed", "the order of the data and dropout follow from it"},
    ResumeRule{"/model", "the run's weights are of its model"},
    ResumeRule{"/data/tokenizer", "the run's tokens are of its tokenizer"},
    ResumeRule{"/data/fine_tuning", "the run's position in its data counts samples that are made so"},
    ResumeRule{"/data/document_mask", "what a token attends to follows from it"},
    ResumeRule{"/data/masking", "the run has learned to tell tokens that are hidden so"},
    ResumeRule{"/data/denoising", "the run has learned to restore texts that are damaged so"},
    ResumeRule{"/data/spans", "the run has learned to find the answers of these questions"},
    ResumeRule{"/data/labels", "the run has learned to tell these labels"},
    ResumeRule{"/data/images", "the run has learned to tell these classes of images that are seen so"},
    ResumeRule{"/data/pairs", "the run has learned to make targets that are read so"},
    ResumeRule{"/data/curriculum", "what the run has trained on follows from it"},
    ResumeRule{"/data/train", "the run's position in its data counts the samples of these files"},
    ResumeRule{"/data/shuffle", "the run's position in its data counts samples in this order"},
    ResumeRule{"/data/validation", ""},
    ResumeRule{"/data/on_bad_line", ""},
    ResumeRule{"/batch/global", ""},
    ResumeRule{"/batch/micro", ""},
    ResumeRule{"/batch/growth", ""},
    ResumeRule{"/batch/sequence_length", "the run's position in its data counts samples of this length"},
    ResumeRule{"/training/steps", ""},
    ResumeRule{"/training/epochs", ""},
    ResumeRule{"/training/init_from", "the run has started from it"},
    ResumeRule{"/training/adapters_from", "the run has started from it"},
    ResumeRule{"/training/evaluate_every", ""},
    ResumeRule{"/training/evaluate_batches", ""},
    ResumeRule{"/training/judged_by", "the run's best checkpoints and its progress are compared by this set's losses"},
    ResumeRule{"/training/early_stopping", ""},
    ResumeRule{"/training/generation", ""},
    ResumeRule{"/training/label_smoothing", "all losses of a run are of targets that are smoothed alike"},
    ResumeRule{"/training/clip_norm", "all updates of a run are clipped alike"},
    ResumeRule{"/training/spikes", ""},
    ResumeRule{"/training/skip_limit", ""},
    ResumeRule{"/training/update_in_backward", ""},
    ResumeRule{"/training/rollbacks", ""},
    ResumeRule{"/training/freeze", "the optimizer has states of what is trained alone"},
    ResumeRule{"/training/token_dropping", "what the run has trained on follows from it"},
    ResumeRule{"/training/optimizer", "the optimizer's states follow from it"},
    ResumeRule{"/training/learning_rate", ""},
    ResumeRule{"/precision", "all steps of a run compute alike"},
    ResumeRule{"/parallel", ""},
    ResumeRule{"/pipeline", ""},
    ResumeRule{"/memory", ""},
    ResumeRule{"/kernels", ""},
    ResumeRule{"/cluster", ""},
    ResumeRule{"/launch", ""},
    ResumeRule{"/checkpoint", ""},
    ResumeRule{"/log", ""},
};

// Whether experts take and drop the tokens of a micro-batch, or balance them, as a whole.
bool routes_micro_batches(const ModelRecipe& model) {
  return model.moe && (model.moe->balances() || model.moe->capacity_factor != 0);
}

}  // namespace

std::span<const ResumeRule> resume_rules() { return rules; }

std::string_view reason_against_change(std::string_view pointer, const Recipe& recipe) {
  if (pointer == "/batch/micro" && routes_micro_batches(recipe.model))
    return "the experts take the tokens of a micro-batch as a whole";
  const auto& lengths = recipe.data.curriculum.sequence_length;
  if (pointer == "/batch/micro" && lengths && lengths->method == LongSamples::reshape)
    return "data.curriculum makes sequences of a micro-batch as a whole";
  // Where checkpoints hold adapters alone, their base is checked by its values, wherever it lies.
  if (pointer == "/training/init_from" && left_out_base(recipe)) return "";
  const auto rule =
      std::find_if(rules.begin(), rules.end(), [&](const ResumeRule& each) { return lies_in(pointer, each.pointer); });
  // A test holds that every key has a rule.
  return rule == rules.end() ? std::string_view("it is not known to be harmless") : rule->reason;
}

}  // namespace llmtrain
