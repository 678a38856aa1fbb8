// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/inference/choice_flags.h"

#include "apps/llmtrain/flags.h"

namespace llmtrain::app {

void add_choice_flags(CLI::App& command, SampleRequest& request) {
  command.add_option("--tokens", request.tokens, "How many tokens to write")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number_not_negative());
  command
      .add_option("--temperature", request.temperature, "0: always the most likely token; 1: the model's probabilities")
      ->type_name("F")
      ->capture_default_str()
      ->check(not_negative());
  command.add_option("--top-k", request.top_k, "Choose among the N most likely tokens; 0: among all")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number_not_negative());
  command.add_option("--top-p", request.top_p, "Choose among the fewest tokens with this probability together")
      ->type_name("F")
      ->capture_default_str()
      ->check(share());
  command.add_option("--seed", request.seed, "The same seed writes the same text")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number());
  command.add_option("--stop", request.stop, "End the text before TEXT; repeatable")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->check(text_not_empty());
}

}  // namespace llmtrain::app
