// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <vector>

#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// What RuntimeInterface::sample(), converse(), serve(), evaluate() and score() do.
void sample_texts(const SampleRequest& request, const SampleListener& listener);
void converse(const SampleRequest& request, const NextPrompt& next, const SampleListener& listener);
void serve_texts(const ServeRequest& request, const std::function<void(TextService&)>& use);
std::vector<EvaluateResult> evaluate_checkpoint(const EvaluateRequest& request);
ChoiceScores score_choices(const ScoreRequest& request);
RolloutScores score_rollouts(const RolloutRequest& request);

}  // namespace llmtrain
