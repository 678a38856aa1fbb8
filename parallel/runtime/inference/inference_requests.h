// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// What RuntimeInterface::sample(), converse(), evaluate() and score() do.
void sample_texts(const SampleRequest& request, const SampleListener& listener);
void converse(const SampleRequest& request, const NextPrompt& next, const SampleListener& listener);
std::vector<EvaluateResult> evaluate_checkpoint(const EvaluateRequest& request);
ChoiceScores score_choices(const ScoreRequest& request);

}  // namespace llmtrain
