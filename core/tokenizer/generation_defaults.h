// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace llmtrain {

// How a model's own generation_config.json has the next token chosen, as generate() of transformers (5) reads it: the
// most likely one unless "do_sample" is true, and then among 50 at temperature 1 where the file does not say. A file
// that names none of these keys says nothing.
struct GenerationDefaults {
  std::optional<double> temperature;         // 0: always the most likely token
  std::optional<std::int64_t> top_k;         // 0: all
  std::optional<double> top_p;               // 1: all
  std::optional<double> repetition_penalty;  // 1: none
  std::optional<std::int64_t> max_new_tokens;
  std::optional<std::int64_t> max_length;  // of a text with its prompt, where max_new_tokens does not say
  // "num_beams" where nothing is drawn, and what belongs to it.
  std::optional<std::int64_t> beams;
  std::optional<double> length_penalty;
  std::optional<std::string> early_stopping;  // "no", "yes" or "never"
  std::optional<std::int64_t> no_repeat_ngram_size;
  std::optional<std::int64_t> forced_first;   // "forced_bos_token_id", of encoder-decoders
  std::optional<std::int64_t> forced_last;    // "forced_eos_token_id"
  std::optional<std::int64_t> decoder_start;  // "decoder_start_token_id"
  // What changes the texts of transformers alone, as "min_length 4": what this program does not do.
  std::vector<std::string> unsupported;
};

// A file that is missing says nothing. Throws Error(bad_data) that names the file and the place of a value that is
// out of its range.
GenerationDefaults read_generation_defaults(const std::filesystem::path& file);

}  // namespace llmtrain
