// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace llmtrain {

// What is known of programs that serve models, beside their rates (KernelFacts): factors on the parts of plans. They
// were fitted to times of served models that AIConfigurator (NVIDIA, Apache-2.0) publishes, on H100 and H200 alone;
// B200 and whole models were held out (docs/inference.md).
struct ServingFacts {
  // Factors on the parts of passes of single tokens.
  double products = 1;
  double attention = 1;
  double movement = 1;
  double exchanges = 1;     // below 1: small sums go through kernels of the program's own, not through NCCL
  double pass_seconds = 0;  // that the host adds to each
  // A factor on passes of prompts.
  double prefill = 1;
  // What continuous batching costs: the part of a prompt's pass for which the others' tokens wait, the rest of which
  // goes with them in one pass; and what a request waits beside its own prompt's pass, for each of the others in
  // prompts, and in passes of single tokens.
  double interruption = 1;
  double waited_prompts = 0;
  double waited_tokens = 0.5;
  double request_seconds = 0;  // that the host adds to a request
};

// Those of a program of recipes/programs; of one that nobody measured the values above.
ServingFacts serving_facts(std::string_view program);

}  // namespace llmtrain
