// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/beam_search.h"

#include <ATen/ops/log_softmax.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "parallel/engine/generation/decoder.h"

namespace llmtrain {
namespace {

// The search for one prompt's texts, in places of its own.
struct Search {
  std::int64_t prompt = 0, first_place = 0;
  std::vector<std::int64_t> beginning;  // what the decoder reads before all beams
  std::int64_t most = 0;                // tokens of a text
  BeamHypotheses hypotheses;
};

class BeamSearcher {
 public:
  BeamSearcher(LocalModel& model, std::span<const std::vector<std::int64_t>> prompts, const GenerateOptions& options,
               const TokenListener& listener)
      : prompts_(prompts),
        options_(options),
        beams_(*options.beams),
        listener_(listener),
        window_(model.graph().model.max_sequence_length),
        together_(
            std::clamp<std::int64_t>(options.batch / beams_.beams, 1, std::ssize(prompts) - options.first_prompt)),
        decoder_(model, together_ * beams_.beams,
                 std::min(window_, longest_beginning(prompts, options) + options.tokens), options.key_values),
        searches_(static_cast<std::size_t>(together_)),
        next_(options.first_prompt) {
    if (options.samples > beams_.beams)
      throw Error(ExitCode::internal_error, "beam search: it has no more texts than beams");
  }

  void run() {
    while (true) {
      fill();
      if (std::ranges::none_of(searches_, [](const auto& search) { return search.has_value(); })) return;
      step();
      if (is_late_) return;
    }
  }

 private:
  void fill() {
    for (std::int64_t i = 0; i < together_; ++i) {
      std::optional<Search>& search = searches_[static_cast<std::size_t>(i)];
      while (!search && next_ < std::ssize(prompts_) && !is_late_) begin(search, i * beams_.beams);
    }
  }

  void begin(std::optional<Search>& search, std::int64_t first_place) {
    const std::vector<std::int64_t>& prompt = prompts_[static_cast<std::size_t>(next_)];
    std::vector<std::int64_t> first = beginning_of(prompt, options_);
    if (length_of(first) > window_) first.erase(first.begin(), first.end() - window_);
    const std::int64_t most = std::min(options_.tokens, window_ - length_of(first) + 1);
    search.emplace(Search{next_++, first_place, std::move(first), most, BeamHypotheses(beams_, most)});
    NewTokens piece{first_place, 0, search->beginning};
    if (options_.decoder_start) piece.source = prompt;
    advance(std::array{&search}, decoder_.logits(std::array{piece}));
  }

  static std::int64_t length_of(const std::vector<std::int64_t>& tokens) { return std::ssize(tokens); }

  // A token of each beam of all searches, in one pass.
  void step() {
    std::vector<NewTokens> pieces;
    std::vector<std::optional<Search>*> growing;
    for (std::optional<Search>& search : searches_) {
      if (!search) continue;
      growing.push_back(&search);
      const std::vector<BeamHypotheses::Text>& beams = search->hypotheses.beams();
      for (std::size_t i = 0; i < beams.size(); ++i)
        pieces.push_back({search->first_place + static_cast<std::int64_t>(i),
                          length_of(search->beginning) + length_of(beams[i].tokens) - 1,
                          std::span(beams[i].tokens).last(1)});
    }
    advance(growing, decoder_.logits(pieces));
  }

  void advance(std::span<std::optional<Search>* const> growing, const at::Tensor& logits) {
    std::vector<KeyValueCache::Copy> copies;
    std::int64_t row = 0;
    for (std::optional<Search>* search : growing) {
      const std::int64_t rows = std::ssize((*search)->hypotheses.beams());
      take(*search, logits.defined() ? logits.narrow(0, row, rows) : logits, copies);
      row += rows;
      if (is_late_) return;
    }
    if (!copies.empty()) decoder_.copy(copies);
  }

  // A step of one search, of whose beams these are the rows of logits.
  void take(std::optional<Search>& search, const at::Tensor& logits, std::vector<KeyValueCache::Copy>& copies) {
    const std::vector<BeamCandidate> candidates = agreed_candidates(*search, logits);
    if (is_late_) return;
    const std::vector<std::int64_t> before = search->hypotheses.advance(candidates);
    if (search->hypotheses.is_done()) {
      tell(*search);
      search.reset();
      return;
    }
    const std::int64_t held = length_of(search->beginning) + length_of(search->hypotheses.beams().front().tokens) - 1;
    for (std::int64_t i = 0; i < std::ssize(before); ++i)
      if (const std::int64_t from = before[static_cast<std::size_t>(i)]; from != i)
        copies.push_back({search->first_place + from, search->first_place + i, held});
  }

  // Those of the rank that has logits, on all ranks. Fewer than are asked for where rules leave no more.
  std::vector<BeamCandidate> agreed_candidates(const Search& search, const at::Tensor& logits) {
    constexpr std::size_t values = 3;
    constexpr double none = -1, late = -2;
    std::vector<double> numbers(static_cast<std::size_t>(candidates_of_step(beams_)) * values, none);
    if (decoder_.decides() && !is_time_over()) {
      const std::vector<BeamCandidate> best = best_candidates(scores_of(search, logits), candidates_of_step(beams_));
      for (std::size_t i = 0; i < best.size(); ++i) {
        numbers[i * values] = best[i].score;
        numbers[i * values + 1] = static_cast<double>(best[i].beam);
        numbers[i * values + 2] = static_cast<double>(best[i].token);
      }
    } else {
      numbers[1] = late;
    }
    numbers = decoder_.agree(std::move(numbers));
    is_late_ = is_late_ || numbers[1] == late;
    std::vector<BeamCandidate> candidates;
    for (std::size_t i = 0; i + 2 < numbers.size() && numbers[i + 1] >= 0; i += values)
      candidates.push_back(
          {numbers[i], static_cast<std::int64_t>(numbers[i + 1]), static_cast<std::int64_t>(numbers[i + 2])});
    return candidates;
  }

  // By beam and token, the sums of log probabilities, whose rules are those of log probabilities.
  std::vector<std::vector<float>> scores_of(const Search& search, const at::Tensor& logits) const {
    const std::vector<BeamHypotheses::Text>& beams = search.hypotheses.beams();
    const at::Tensor rows = at::log_softmax(logits, 1).contiguous();
    const auto vocabulary = static_cast<std::size_t>(rows.size(1));
    std::vector<std::vector<float>> scores;
    for (std::size_t i = 0; i < beams.size(); ++i) {
      const float* row = rows.const_data_ptr<float>() + i * vocabulary;
      std::vector<float>& of_beam = scores.emplace_back(row, row + vocabulary);
      std::vector<std::int64_t> tokens = search.beginning;
      tokens.insert(tokens.end(), beams[i].tokens.begin(), beams[i].tokens.end());
      apply(options_.rules, {length_of(beams[i].tokens), search.most, tokens}, of_beam);
      for (float& score : of_beam) score += static_cast<float>(beams[i].score);
    }
    return scores;
  }

  void tell(const Search& search) const {
    const std::vector<BeamHypotheses::Text>& texts = search.hypotheses.finished();
    for (std::int64_t i = 0; i < std::min(options_.samples, std::ssize(texts)); ++i)
      for (const std::int64_t token : texts[static_cast<std::size_t>(i)].tokens)
        if (!listener_({search.prompt, i}, token)) break;
  }

  bool is_time_over() const {
    return options_.time_limit && std::chrono::steady_clock::now() - start_ > *options_.time_limit;
  }

  std::span<const std::vector<std::int64_t>> prompts_;
  const GenerateOptions& options_;
  const BeamSearch& beams_;
  const TokenListener& listener_;
  std::int64_t window_, together_;
  Decoder decoder_;
  std::vector<std::optional<Search>> searches_;
  std::int64_t next_;  // of the prompts
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool is_late_ = false;
};

}  // namespace

void search_beams(LocalModel& model, std::span<const std::vector<std::int64_t>> prompts, const GenerateOptions& options,
                  const TokenListener& listener) {
  BeamSearcher(model, prompts, options, listener).run();
}

}  // namespace llmtrain
