// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/runtime/runtime_interface.h"

namespace llmtrain::app {

// What a user says of how the next token is chosen, and of when a text ends.
struct ChoiceFlags {
  std::optional<std::int64_t> tokens;
  std::optional<double> temperature;
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p;
  std::optional<double> repetition_penalty;
  std::optional<std::int64_t> no_repeat_ngram_size, beams;
  std::optional<double> length_penalty;
  std::optional<std::string> early_stopping;
  std::int64_t seed = SampleRequest{}.seed;
  std::vector<std::string> stop;
};

inline constexpr const char* choice_note =
    "A model's own generation_config.json, where it has one, says what\n"
    "--tokens, --temperature, --top-k, --top-p, --repetition-penalty, --no-repeat-ngram-size,\n"
    "--beams, --length-penalty and --early-stopping are by default.";

// The flags outlive the parsing.
void add_choice_flags(CLI::App& command, ChoiceFlags& flags);

// Enters them into a request that has its recipe and checkpoint. Encoder-decoders write the most likely tokens unless
// something says otherwise. Throws Error(bad_recipe) where texts are to be drawn and searched for by beams. What has no
// flag is taken from the generation_config.json of the folder from which the model came, which a line of the log says,
// else it stays. Warns of what that file asks for and no text gets. Throws Error(bad_data) as read_model_marks() does.
void take_choice(const ChoiceFlags& flags, SampleRequest& request);

}  // namespace llmtrain::app
