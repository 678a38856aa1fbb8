// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/llmtrain/inference/text_lines.h"

namespace llmtrain::app {

// Shares of questions whose most likely choice is the right one, as lm-evaluation-harness defines them: by the
// choice's log-probability (acc), or by that divided by the choice's length in characters (acc_norm) or in bytes of
// UTF-8 (acc_bytes), without the delimiter. Of equal choices the first counts.
struct ChoiceAccuracy {
  double acc = 0, acc_norm = 0, acc_bytes = 0;
};
ChoiceAccuracy accuracy_of(const std::vector<KnownQuestion>& questions, const ChoiceScores& scores);

std::string choices_as_text(const std::string& checkpoint, const std::vector<KnownQuestion>& questions,
                            const ChoiceScores& scores);
std::string choices_as_json(const std::string& checkpoint, const std::vector<KnownQuestion>& questions,
                            const ChoiceScores& scores);

}  // namespace llmtrain::app
