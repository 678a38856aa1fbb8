// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/json/json_text.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain::app {

// What texts begin with, from a file: of a `.jsonl` file the "prompt" of every object, a text, or its "messages", a
// list; else every line. Empty lines are left out. Throws Error(missing_input), and Error(bad_data) with the line's
// number.
std::vector<Json> read_prompts(const std::string& file);

// A multiple-choice question with its answer.
struct KnownQuestion {
  ChoiceQuestion question;           // its choices begin with the delimiter
  std::size_t answer = 0;            // index of the right choice
  std::vector<std::string> choices;  // as written
};

// Questions of a file of JSON Lines: {"context": TEXT (or "prompt"), "choices": [TEXT, …], "answer": INDEX}; other keys
// are left to the file's owner. `delimiter` stands between context and choice. Throws as read_prompts() does.
std::vector<KnownQuestion> read_questions(const std::string& file, const std::string& delimiter);

// Texts that a server has written, of a file of JSON Lines: {"prompt_token_ids": [ID, …], "token_ids": [ID, …]} and,
// where their experts are to be used again, "routed_experts": for every token but the last a list for each layer with
// experts; other keys are left to the file's owner, so that a choice of serve's answers is such a line. Throws as
// read_prompts() does.
std::vector<Rollout> read_rollouts(const std::string& file);

}  // namespace llmtrain::app
