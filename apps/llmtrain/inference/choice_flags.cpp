// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/inference/choice_flags.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <filesystem>

#include "apps/llmtrain/flags.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/recipe/model_from/model_files.h"
#include "core/tokenizer/model_marks.h"

namespace llmtrain::app {
namespace {

// A flag's value, else the model's own, which is noted, else what the request has.
template <class Value>
void take(const char* name, const std::optional<Value>& flag, const std::optional<Value>& own, Value& value,
          std::vector<std::string>& taken) {
  value = flag.value_or(own.value_or(value));
  if (!flag && own) taken.push_back(fmt::format("{} {}", name, *own));
}

BeamRequest::EarlyStopping early_stopping_of(const std::string& word) {
  if (word == "yes") return BeamRequest::EarlyStopping::yes;
  return word == "never" ? BeamRequest::EarlyStopping::never : BeamRequest::EarlyStopping::no;
}

// Where texts are drawn there are no beams.
void take_beams(const ChoiceFlags& flags, const GenerationDefaults& own, SampleRequest& request,
                std::vector<std::string>& taken) {
  const bool draws = flags.temperature.value_or(0) > 0;
  if (flags.beams.value_or(1) > 1 && draws)
    throw Error(
        ExitCode::bad_recipe,
        fmt::format("--temperature {}: draws tokens, where --beams {} searches for the most likely text; needs 0",
                    *flags.temperature, *flags.beams));
  take("beams", flags.beams, draws ? std::nullopt : own.beams, request.beams.beams, taken);
  if (request.beams.beams == 1) return;
  if (!request.stop.empty())
    throw Error(ExitCode::bad_recipe,
                fmt::format("--stop: ends texts token by token, where {} beams end with the model's own end of text",
                            request.beams.beams));
  if (request.samples > request.beams.beams)
    throw Error(ExitCode::bad_recipe, fmt::format("--samples {}: is more than the {} texts that --beams finds",
                                                  request.samples, request.beams.beams));
  request.temperature = 0;
  take("length-penalty", flags.length_penalty, own.length_penalty, request.beams.length_penalty, taken);
  std::string word = "no";
  take("early-stopping", flags.early_stopping, own.early_stopping, word, taken);
  request.beams.early_stopping = early_stopping_of(word);
}

// What texts begin and end with.
void take_starts(bool has_sources, GenerationDefaults& own, SampleRequest& request) {
  request.forced_last = own.forced_last;
  if (has_sources) request.forced_first = own.forced_first;
  // transformers forces for others what follows a prompt of one token.
  if (!has_sources && own.forced_first)
    own.unsupported.push_back(fmt::format("forced_bos_token_id {}", *own.forced_first));
  const DataRecipe& data = request.recipe.data;
  request.decoder_start = data.pairs || data.denoising ? decoder_start(data) : own.decoder_start;
}

}  // namespace

void add_choice_flags(CLI::App& command, ChoiceFlags& flags) {
  const SampleRequest otherwise;
  const auto add = [&](const char* name, auto& value, const char* type, const std::string& description,
                       const auto& missing) {
    return command.add_option(name, value, description)->type_name(type)->default_str(fmt::format("{}", missing));
  };
  add("--tokens", flags.tokens, "N", "How many tokens to write", otherwise.tokens)->check(whole_number_not_negative());
  add("--temperature", flags.temperature, "F", "0: always the most likely token; 1: the model's probabilities",
      otherwise.temperature)
      ->check(not_negative());
  add("--top-k", flags.top_k, "N", "Choose among the N most likely tokens; 0: among all", otherwise.top_k)
      ->check(whole_number_not_negative());
  add("--top-p", flags.top_p, "F", "Choose among the fewest tokens with this probability together", otherwise.top_p)
      ->check(share());
  add("--repetition-penalty", flags.repetition_penalty, "F",
      "Divides the positive logits of tokens that the text has already, and multiplies the negative ones",
      otherwise.repetition_penalty)
      ->check(positive());
  add("--no-repeat-ngram-size", flags.no_repeat_ngram_size, "N", "No sequence of N tokens twice; 0: any",
      otherwise.no_repeat_ngram_size)
      ->check(whole_number_not_negative());
  add("--beams", flags.beams, "N", "Search for the most likely text by N beginnings at once; 1: choose token by token",
      otherwise.beams.beams)
      ->check(whole_number_positive());
  add("--length-penalty", flags.length_penalty, "F",
      "Beams' log probabilities are divided by the text's length to this power", otherwise.beams.length_penalty);
  add("--early-stopping", flags.early_stopping, "WORD",
      "With as many texts as beams, end: yes; where none so long could be better: no; where none could: never", "no")
      ->check(CLI::IsMember({"no", "yes", "never"}));
  add("--seed", flags.seed, "N", "The same seed writes the same text", otherwise.seed)->check(whole_number());
  command.add_option("--stop", flags.stop, "End the text before TEXT; repeatable")
      ->type_name("TEXT")
      ->allow_extra_args(false)
      ->check(text_not_empty());
}

void take_choice(const ChoiceFlags& flags, SampleRequest& request) {
  request.seed = flags.seed;
  request.stop = flags.stop;
  const std::filesystem::path origin = origin_of_model(request.recipe, request.checkpoint);
  GenerationDefaults own = origin.empty() ? GenerationDefaults{} : read_model_marks(origin).generation;
  std::vector<std::string> taken;
  const bool has_sources = is_encoder_decoder(request.recipe.model.architecture);
  if (has_sources) request.temperature = 0;
  take_starts(has_sources, own, request);
  take_beams(flags, own, request, taken);
  take("no-repeat-ngram-size", flags.no_repeat_ngram_size, own.no_repeat_ngram_size, request.no_repeat_ngram_size,
       taken);
  take("tokens", flags.tokens, own.max_new_tokens, request.tokens, taken);
  take("temperature", flags.temperature, own.temperature, request.temperature, taken);
  const bool draws = request.temperature > 0;
  take("top-k", flags.top_k, draws ? own.top_k : std::nullopt, request.top_k, taken);
  take("top-p", flags.top_p, draws ? own.top_p : std::nullopt, request.top_p, taken);
  take("repetition-penalty", flags.repetition_penalty, own.repetition_penalty, request.repetition_penalty, taken);
  const std::string file = (origin / "generation_config.json").string();
  if (!taken.empty()) log().info("{}: {}; flags say otherwise", file, fmt::join(taken, ", "));
  if (own.max_length && !own.max_new_tokens && !flags.tokens)
    log().info("{}: max_length {} counts prompts, too, and is not taken: {} tokens at most; --tokens says otherwise",
               file, *own.max_length, request.tokens);
  if (!own.unsupported.empty())
    log().warn("{}: {}: not supported, so that texts differ from those of transformers", file,
               fmt::join(own.unsupported, ", "));
}

}  // namespace llmtrain::app
