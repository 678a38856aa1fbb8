// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/inference/serving_facts.h"

namespace llmtrain {

ServingFacts serving_facts(std::string_view program) {
  if (program == "vllm")
    return {.products = 1.15,
            .attention = 1.03,
            .movement = 1.07,
            .exchanges = 0.05,
            .pass_seconds = 0.99e-3,
            .prefill = 0.94,
            .interruption = 0.69,
            .waited_prompts = 0.092,
            .waited_tokens = 2.57,
            .request_seconds = 17.4e-3};
  if (program == "tensorrt-llm")
    return {.products = 1.04,
            .attention = 0.78,
            .movement = 1.16,
            .exchanges = 0.21,
            .prefill = 1.08,
            .interruption = 0.92,
            .waited_prompts = 0.057,
            .waited_tokens = 4.33,
            .request_seconds = 101e-3};
  if (program == "sglang")
    return {.products = 0.79,
            .attention = 1.39,
            .movement = 0.98,
            .exchanges = 0.17,
            .pass_seconds = 0.53e-3,
            .prefill = 0.95,
            .interruption = 0.51,
            .waited_prompts = 0.365,
            .waited_tokens = 19.1};
  return {};
}

}  // namespace llmtrain
