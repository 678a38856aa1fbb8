// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/json/json_text.h"
#include "core/page/text_layout.h"
#include "parallel/plan/inference/inference_search.h"

namespace llmtrain {

// Times are in seconds, sizes in bytes.
Json inference_json(const InferencePlan& plan);

// A summary for a terminal.
std::string inference_text(const InferencePlan& plan, const TextStyle& style);

// All plans of a search, with the front between latency and cost marked, and what has been tried for a target, with the
// smallest number of devices that meets it, if any does.
Json search_json(const InferenceSearch& search);
std::string search_text(const InferenceSearch& search, const TextStyle& style);
std::string search_html(const InferenceSearch& search);
Json target_json(const std::vector<InferencePlan>& plans, const InferenceTarget& target);
std::string target_text(const std::vector<InferencePlan>& plans, const InferenceTarget& target, const TextStyle& style);

// The requests in words: "64 sequences of 2,048 + 64 tokens, weights int8, cache bf16".
std::string requests_text(const ServingRequest& request);

}  // namespace llmtrain
