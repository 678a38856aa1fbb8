// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/data/conversations/text_ends.h"
#include "core/data/growing_text.h"
#include "core/tokenizer/open_tokenizer.h"
#include "parallel/engine/generation/generation.h"
#include "parallel/runtime/inference/inference_requests.h"
#include "parallel/runtime/inference/loaded_draft.h"
#include "parallel/runtime/inference/source_prompts.h"
#include "parallel/runtime/loaded_model.h"

namespace llmtrain {
namespace {

SampleEnd::Reason reason_of(GrowingText::State state) {
  switch (state) {
    case GrowingText::State::stopped_by_text:
      return SampleEnd::Reason::stop;
    case GrowingText::State::stopped_by_token:
      return SampleEnd::Reason::end_of_text;
    case GrowingText::State::grows:
    case GrowingText::State::ended:
      break;
  }
  return SampleEnd::Reason::length;
}

// The texts of one rank, all of which grow in the same way on every rank; one of them reports to the listener.
class GrowingTexts {
 public:
  // What `bytes_of` reads outlives this; each of `ends` ends a text.
  GrowingTexts(const SampleRequest& request, const GrowingText::Decode& bytes_of, const std::vector<std::int64_t>& ends,
               const SampleListener* listener)
      : request_(request), listener_(listener) {
    const TextStops stops{request.stop, ends};
    for (std::size_t i = 0; i < request.prompts.size() * static_cast<std::size_t>(request.samples); ++i)
      texts_.emplace_back(bytes_of, stops);
  }

  bool add(const TextNumber& number, std::int64_t token) {
    GrowingText& text = texts_[static_cast<std::size_t>(number.prompt * request_.samples + number.sample)];
    const bool goes_on = text.add(token) && static_cast<std::int64_t>(text.tokens().size()) < request_.tokens;
    if (!goes_on) text.end();
    report(number, text, !goes_on);
    return goes_on;
  }

  // Without a token to generate no text has been reported.
  void end_empty() {
    for (std::int64_t i = request_.first_prompt * request_.samples; i < std::ssize(texts_) && request_.tokens == 0; ++i)
      report({i / request_.samples, i % request_.samples}, texts_[static_cast<std::size_t>(i)], true);
  }

 private:
  void report(const TextNumber& number, GrowingText& text, bool is_end) const {
    if (listener_ == nullptr) return;
    SamplePiece piece{number.prompt, number.sample, text.take(), std::nullopt};
    if (is_end) piece.end = {text.text(), text.tokens(), reason_of(text.state())};
    (*listener_)(piece);
  }

  const SampleRequest& request_;
  const SampleListener* listener_;  // null on ranks that do not report
  std::vector<GrowingText> texts_;
};

// What a chat template has written, with all marks that there are to be.
std::vector<std::int64_t> encoded(const Tokenizer& tokenizer, const std::string& prompt) {
  std::vector<TokenId> ids;
  tokenizer.make_encoder()->encode(prompt, ids);
  if (ids.empty()) throw Error(ExitCode::bad_data, "the chat template writes no token before an answer");
  return {ids.begin(), ids.end()};
}

EarlyStopping early_stopping_of(BeamRequest::EarlyStopping asked) {
  switch (asked) {
    case BeamRequest::EarlyStopping::no:
      return EarlyStopping::no;
    case BeamRequest::EarlyStopping::yes:
      return EarlyStopping::yes;
    case BeamRequest::EarlyStopping::never:
      break;
  }
  return EarlyStopping::never;
}

// Each of `ends` ends a text.
GenerateOptions options_of(const SampleRequest& request, const std::vector<std::int64_t>& ends) {
  GenerateOptions options;
  options.tokens = request.tokens;
  options.choice = {request.temperature, request.top_k, request.top_p, request.seed};
  options.rules = {request.repetition_penalty, request.no_repeat_ngram_size, request.forced_first, request.forced_last};
  options.samples = request.samples;
  options.first_prompt = request.first_prompt;
  options.batch = request.batch;
  options.key_values = request.key_values;
  if (const BeamRequest& beams = request.beams; beams.beams > 1)
    options.beams = BeamSearch{beams.beams, beams.length_penalty, early_stopping_of(beams.early_stopping), ends};
  return options;
}

void report_drafts(const Drafting& drafting) {
  if (drafting.drafts == nullptr || drafting.drafts->counts().drafted == 0) return;
  const auto& [drafted, accepted] = drafting.drafts->counts();
  log().info("{} of {} guessed tokens were right ({:.0f} %)", accepted, drafted,
             100 * static_cast<double>(accepted) / static_cast<double>(drafted));
}

// Tokens as texts that go on have them.
GrowingText::Decode continued(const Tokenizer& tokenizer) {
  return [&tokenizer](std::span<const std::int64_t> tokens) { return tokenizer.decode_continuation(tokens); };
}

}  // namespace

void sample_texts(const SampleRequest& request, const SampleListener& listener) {
  const auto tokenizer = open_tokenizer(request.recipe.data.tokenizer, request.recipe.model.vocab_size);
  const auto ends = text_ends(request.recipe, request.checkpoint, *tokenizer);
  std::vector<std::vector<std::int64_t>> prompts;
  GenerateOptions options = options_of(request, ends);
  GrowingText::Decode bytes_of = continued(*tokenizer);
  std::optional<SourcePrompts> sources;
  if (is_encoder_decoder(request.recipe.model.architecture)) {
    sources.emplace(request, *tokenizer);
    options.decoder_start = sources->targets().decoder_start();
    bytes_of = [&sources](std::span<const std::int64_t> tokens) { return sources->targets().text_of(tokens); };
  }
  // A model needs at least one token to begin with.
  for (const std::string& prompt : request.prompts)
    if (sources)
      prompts.push_back(sources->tokens(prompt));
    else
      prompts.push_back(request.begins_texts ? encode_prompt(*tokenizer, prompt.empty() ? "\n" : prompt)
                                             : encoded(*tokenizer, prompt));
  with_loaded_model(request.recipe, request.checkpoint, request.ranks, request.memory, [&](LocalModel& model) {
    GrowingTexts texts(request, bytes_of, ends, model.groups().is_first() ? &listener : nullptr);
    const std::int64_t window = request.recipe.model.max_sequence_length;
    with_drafts(request.draft, model, request.batch, window, [&](const Drafting& drafting) {
      GenerateOptions drafted = options;
      drafted.drafting = drafting;
      generate(model, prompts, drafted,
               [&](const TextNumber& number, std::int64_t token) { return texts.add(number, token); });
      report_drafts(drafting);
    });
    texts.end_empty();
  });
}

void converse(const SampleRequest& request, const NextPrompt& next, const SampleListener& listener) {
  const auto tokenizer = open_tokenizer(request.recipe.data.tokenizer, request.recipe.model.vocab_size);
  const auto ends = text_ends(request.recipe, request.checkpoint, *tokenizer);
  const std::int64_t window = request.recipe.model.max_sequence_length;
  const auto talk = [&](LocalModel& model, const Drafting& drafting) {
    SampleRequest turn = request;
    bool fitted = true;
    for (auto prompt = next(); prompt; prompt = next()) {
      turn.prompts = {*prompt};
      const std::vector<std::vector<std::int64_t>> prompts = {encoded(*tokenizer, *prompt)};
      const auto length = static_cast<std::int64_t>(prompts.front().size());
      // Only once, as each later prompt of the conversation is longer.
      if (const bool fits = length <= window; std::exchange(fitted, fits) && !fits)
        log().warn("the conversation has {} tokens, of which the model sees the last {} (max_sequence_length)", length,
                   window);
      GrowingTexts texts(turn, continued(*tokenizer), ends, &listener);
      GenerateOptions options = options_of(turn, ends);
      options.drafting = drafting;
      generate(model, prompts, options,
               [&](const TextNumber& number, std::int64_t token) { return texts.add(number, token); });
      texts.end_empty();
      // Without the sign, as the largest seed has one after it, too.
      turn.seed = static_cast<std::int64_t>(static_cast<std::uint64_t>(turn.seed) + 1);
    }
  };
  with_loaded_model(request.recipe, request.checkpoint, {}, request.memory, [&](LocalModel& model) {
    with_drafts(request.draft, model, 1, window, [&](const Drafting& drafting) { talk(model, drafting); });
  });
}

}  // namespace llmtrain
