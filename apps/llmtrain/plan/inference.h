// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/llmtrain/plan/plan.h"

namespace llmtrain::app {

// What `plan --inference` was asked.
struct InferenceQuestion {
  std::vector<std::string> request;   // texts of KEY=VALUE (parse_request())
  bool search = false;                // numbers of devices and batches; also where a page is asked for
  std::optional<std::string> target;  // first_token=TIME, per_token=TIME, tokens_per_second=NUMBER, with commas
};

// Plans how the recipe's model is served, prints the summary or JSON on standard output, and writes a search's page.
// Throws Error.
int show_inference(const Recipe& recipe, const InferenceQuestion& question, const PlanOutputs& outputs);

}  // namespace llmtrain::app
