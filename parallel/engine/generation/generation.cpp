// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/generation.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "parallel/engine/generation/beam_search.h"
#include "parallel/engine/generation/decoder.h"
#include "parallel/engine/generation/exactness.h"
#include "parallel/engine/generation/guessed_tokens.h"

namespace llmtrain {
namespace {

using Clock = std::chrono::steady_clock;

// A text that grows.
struct Text {
  TextNumber number;
  std::vector<std::int64_t> tokens;
  std::int64_t generated = 0;
};

std::int64_t length(const std::vector<std::int64_t>& tokens) { return static_cast<std::int64_t>(tokens.size()); }

class Generator {
 public:
  Generator(LocalModel& model, std::span<const std::vector<std::int64_t>> prompts, const GenerateOptions& options,
            const TokenListener& listener)
      : prompts_(prompts),
        options_(options),
        listener_(listener),
        window_(model.graph().model.max_sequence_length),
        places_(std::min(options.batch, (std::ssize(prompts) - options.first_prompt) * options.samples)),
        // One more place, for the prompt that several texts begin with.
        decoder_(model, places_ + 1, std::min(window_, longest_beginning(prompts, options) + options.tokens),
                 options.key_values),
        texts_(static_cast<std::size_t>(places_)),
        next_{options.first_prompt, 0} {
    if (options.decoder_start) options_.tokens = std::min(options_.tokens, window_);
  }

  void run() {
    while (!is_late_) {
      fill();
      if (std::none_of(texts_.begin(), texts_.end(), [](const auto& text) { return text.has_value(); })) return;
      slide();
      grow();
    }
  }

 private:
  bool fits(const Text& text) const { return length(text.tokens) <= window_; }

  // Begins texts where there is a place.
  void fill() {
    for (std::int64_t place = 0; place < places_; ++place) {
      std::optional<Text>& text = texts_[static_cast<std::size_t>(place)];
      while (!text && !is_late_ && next_.prompt < static_cast<std::int64_t>(prompts_.size())) {
        begin(place);
        next_ = next_.sample + 1 < options_.samples ? TextNumber{next_.prompt, next_.sample + 1}
                                                    : TextNumber{next_.prompt + 1, 0};
      }
    }
  }

  void begin(std::int64_t place) {
    const std::vector<std::int64_t>& prompt = prompts_[static_cast<std::size_t>(next_.prompt)];
    const std::vector<std::int64_t> first = beginning_of(prompt, options_);
    // A text that is alone with its prompt needs no copy of it.
    const std::int64_t prompt_place = options_.samples > 1 ? places_ : place;
    if (next_.sample == 0) {
      prompt_logits_ = options_.decoder_start ? decoder_.logits(std::array{NewTokens{prompt_place, 0, first, prompt}})
                                              : logits_after(first, prompt_place);
    }
    if (prompt_place != place)
      decoder_.copy(std::array{KeyValueCache::Copy{prompt_place, place, std::min(window_, length(first))}});
    texts_[static_cast<std::size_t>(place)] = Text{next_, first, 0};
    add_tokens({place}, prompt_logits_);
  }

  // After what the model sees of these tokens, as new ones.
  at::Tensor logits_after(const std::vector<std::int64_t>& tokens, std::int64_t place) {
    const auto seen = std::span(tokens).last(static_cast<std::size_t>(std::min(window_, length(tokens))));
    at::Tensor logits;
    for (std::int64_t read = 0; read < std::ssize(seen);) read = decoder_.read_prompt(place, seen, read, logits);
    return logits;
  }

  // A token of each text that is longer than the window: all its positions have changed.
  void slide() {
    for (std::int64_t place = 0; place < places_; ++place) {
      const std::optional<Text>& text = texts_[static_cast<std::size_t>(place)];
      if (text && !fits(*text)) add_tokens({place}, logits_after(text->tokens, place));
    }
  }

  // Tokens of each of the others, in one pass: those of its guesses that are right, and one more.
  void grow() {
    std::vector<std::int64_t> places;
    std::vector<DraftedText> drafted;
    for (std::int64_t place = 0; place < places_; ++place) {
      const std::optional<Text>& text = texts_[static_cast<std::size_t>(place)];
      if (!text || !fits(*text)) continue;
      places.push_back(place);
      // Behind the last guess comes a token of the model's own.
      drafted.push_back({.place = place,
                         .tokens = text->tokens,
                         .most = std::min(options_.tokens - text->generated - 1, window_ - length(text->tokens)),
                         .index = text->generated,
                         .limit = options_.tokens,
                         .choice = options_.choice,
                         .rules = options_.rules,
                         .number = text->number});
    }
    const AddTokens add = [&](std::span<const std::size_t> numbers, const at::Tensor& logits,
                              std::span<const std::int64_t> rows) {
      std::vector<std::int64_t> of_texts;
      for (const std::size_t number : numbers) of_texts.push_back(places[number]);
      return add_tokens(of_texts, logits, rows);
    };
    grow_texts(decoder_, options_.drafting, std::move(drafted), add);
  }

  // Chooses a token of each text by its row of the logits.
  void add_tokens(const std::vector<std::int64_t>& places, const at::Tensor& logits) {
    std::vector<std::int64_t> rows(places.size());
    std::iota(rows.begin(), rows.end(), std::int64_t{0});
    add_tokens(places, logits, rows);
  }

  std::vector<ChosenToken> add_tokens(const std::vector<std::int64_t>& places, const at::Tensor& logits,
                                      std::span<const std::int64_t> rows) {
    std::vector<double> chosen(places.size(), late);
    if (decoder_.decides() && !is_time_over()) {
      const auto vocabulary = static_cast<std::size_t>(logits.size(1));
      for (std::size_t i = 0; i < places.size(); ++i) {
        const Text& text = *texts_[static_cast<std::size_t>(places[i])];
        const std::span row(logits.const_data_ptr<float>() + static_cast<std::size_t>(rows[i]) * vocabulary,
                            vocabulary);
        chosen[i] = static_cast<double>(choose_token(row, options_.rules, options_.choice, text.number,
                                                     {text.generated, options_.tokens, text.tokens}));
      }
    }
    chosen = decoder_.agree(std::move(chosen));
    std::vector<ChosenToken> added;
    for (std::size_t i = 0; i < places.size(); ++i) {
      is_late_ = is_late_ || chosen[i] == late;
      const auto token = static_cast<std::int64_t>(chosen[i]);
      added.push_back({token, !is_late_ && add_token(texts_[static_cast<std::size_t>(places[i])], token)});
    }
    return added;
  }

  // Whether the text goes on.
  bool add_token(std::optional<Text>& text, std::int64_t token) const {
    text->tokens.push_back(token);
    const bool goes_on = listener_(text->number, token);
    if (!goes_on || ++text->generated == options_.tokens) text.reset();
    return text.has_value();
  }

  bool is_time_over() const { return options_.time_limit && Clock::now() - start_ > *options_.time_limit; }

  // In place of a token's id, and the same on all ranks: their clocks differ.
  static constexpr double late = -1;

  std::span<const std::vector<std::int64_t>> prompts_;
  GenerateOptions options_;
  const TokenListener& listener_;
  std::int64_t window_, places_;
  Decoder decoder_;
  std::vector<std::optional<Text>> texts_;  // by place
  TextNumber next_;
  at::Tensor prompt_logits_;  // after the prompt of the text begun last
  Clock::time_point start_ = Clock::now();
  bool is_late_ = false;
};

void require_drafts_apply(const LocalModel& model, const GenerateOptions& options) {
  if (options.beams || options.decoder_start)
    throw Error(ExitCode::internal_error, "generation: nobody guesses at texts of beams or of sources");
  require_rows_apart(model, "--draft and --prompt-lookup");
}

}  // namespace

std::vector<std::int64_t> beginning_of(const std::vector<std::int64_t>& prompt, const GenerateOptions& options) {
  return options.decoder_start ? std::vector{*options.decoder_start} : prompt;
}

std::int64_t longest_beginning(std::span<const std::vector<std::int64_t>> prompts, const GenerateOptions& options) {
  std::int64_t longest = options.decoder_start ? 1 : 0;
  for (const std::vector<std::int64_t>& prompt : prompts)
    if (!options.decoder_start) longest = std::max(longest, length(prompt));
  return longest;
}

void generate(LocalModel& model, std::span<const std::vector<std::int64_t>> prompts, const GenerateOptions& options,
              const TokenListener& listener) {
  if (options.drafting.tokens > 0) require_drafts_apply(model, options);
  if (options.tokens == 0 || options.first_prompt >= std::ssize(prompts)) return;
  if (options.beams)
    search_beams(model, prompts, options, listener);
  else
    Generator(model, prompts, options, listener).run();
}

std::vector<std::int64_t> generate(LocalModel& model, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options) {
  std::vector<std::int64_t> tokens = prompt;
  generate(model, std::array{std::move(prompt)}, options, [&](const TextNumber&, std::int64_t token) {
    tokens.push_back(token);
    return true;
  });
  return tokens;
}

}  // namespace llmtrain
