// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/tally/span_tally.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "core/metrics/answers.h"

namespace llmtrain {
namespace {

// What is found in a window; sums of numbers over ranks, of which one has read it.
struct Found {
  double none = 0;                 // the score of no answer
  double score = 0;                // of the best span
  std::size_t begin = 0, end = 0;  // its bytes in the text
};
constexpr std::size_t numbers_of_each = 4;

void store(const Found& found, std::span<double> numbers) {
  numbers[0] = found.none;
  numbers[1] = found.score;
  numbers[2] = static_cast<double>(found.begin);
  numbers[3] = static_cast<double>(found.end);
}

Found stored(std::span<const double> numbers) {
  return {numbers[0], numbers[1], static_cast<std::size_t>(numbers[2]), static_cast<std::size_t>(numbers[3])};
}

Found found_in(const SpanTexts::Window& window, std::span<const double> starts, std::span<const double> ends,
               std::int64_t longest) {
  Found found{.none = starts.front() + ends.front()};
  const std::int64_t end = window.first_row + std::ssize(window.places);
  const auto place = [&](std::int64_t row) { return window.places[static_cast<std::size_t>(row - window.first_row)]; };
  // A window has a token of its text at least.
  const ScoredSpan best = best_span(starts, ends, window.first_row, end, longest).value();
  found.score = best.score;
  found.begin = place(best.first).begin;
  found.end = std::max(found.begin, place(best.last).end);
  return found;
}

// The best of a text's windows.
std::string told_answer(const std::string& context, const std::map<std::int64_t, Found>& windows, bool may_be_none) {
  double none = windows.begin()->second.none;
  const Found* best = &windows.begin()->second;
  for (const auto& [number, found] : windows) {
    none = std::min(none, found.none);
    if (found.score > best->score) best = &found;
  }
  if (may_be_none && none > best->score) return "";
  return context.substr(best->begin, best->end - best->begin);
}

}  // namespace

SpanTally::SpanTally(const Recipe& recipe, const SampleSource& data, std::int64_t samples) {
  const auto* const dataset = dynamic_cast<const Dataset*>(&data);
  if (!recipe.data.spans || dataset == nullptr || !dataset->has_questions()) return;
  spans_ = recipe.data.spans;
  data_ = dataset;
  numbers_.assign(numbers_of_each * static_cast<std::size_t>(samples), 0);
}

void SpanTally::add(std::int64_t first, const Batch& batch, const at::Tensor& logits) {
  if (!spans_ || !logits.defined()) return;
  const Sequences& rows = batch.rows.front();
  const at::Tensor host = logits.to(at::kCPU, at::kDouble).contiguous();
  const auto length = static_cast<std::size_t>(rows.length);
  const std::span values(host.const_data_ptr<double>(), static_cast<std::size_t>(host.numel()));
  for (std::int64_t sample = 0; sample < rows.count; ++sample) {
    const Dataset::QuestionPlace place = data_->question(first + sample);
    const std::size_t begin = 2 * static_cast<std::size_t>(sample) * length;
    const Found found = found_in(place.texts->window(place.window), values.subspan(begin, length),
                                 values.subspan(begin + length, length), spans_->answer_length);
    store(found,
          std::span(numbers_).subspan(numbers_of_each * static_cast<std::size_t>(first + sample), numbers_of_each));
  }
}

std::vector<Figure> SpanTally::figures(std::span<const double> numbers) const {
  if (!spans_) return {};
  struct Answered {
    const SpanTexts::Question* question = nullptr;
    std::map<std::int64_t, Found> windows;
  };
  // In the order of the samples: sums in that of addresses would differ from run to run.
  std::vector<Answered> questions;
  std::map<const SpanTexts::Question*, std::size_t> place_of;
  for (std::size_t i = 0; i < numbers.size() / numbers_of_each; ++i) {
    const Dataset::QuestionPlace place = data_->question(static_cast<std::int64_t>(i));
    const SpanTexts::Question& question = place.texts->question(place.texts->window(place.window).question);
    const auto [known, is_new] = place_of.try_emplace(&question, questions.size());
    if (is_new) questions.push_back({&question, {}});
    questions[known->second].windows[place.window] = stored(numbers.subspan(numbers_of_each * i, numbers_of_each));
  }
  AnswerCounts counts;
  for (const auto& [question, windows] : questions)
    if (std::ssize(windows) == question->windows)
      counts.add(told_answer(question->context, windows, spans_->unanswerable), question->answers);
  return counts.figures();
}

}  // namespace llmtrain
