// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/inference/sample_output.h"

#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/llmtrain/standard_streams.h"
#include "core/base/elapsed_time.h"
#include "core/base/log.h"
#include "core/base/units.h"

namespace llmtrain::app {
namespace {

const char* word_of(SampleEnd::Reason reason) {
  switch (reason) {
    case SampleEnd::Reason::length:
      return "length";
    case SampleEnd::Reason::stop:
      return "stop";
    case SampleEnd::Reason::end_of_text:
      break;
  }
  return "end of text";
}

}  // namespace

std::string SampleOutput::finished(const SamplePiece& piece) const {
  const SamplePrompt& prompt = prompts_[static_cast<std::size_t>(piece.prompt)];
  if (form_ == Form::json_lines) {
    const nlohmann::ordered_json line = {{"prompt", prompt.json},
                                         {"sample", piece.sample},
                                         {"text", piece.end->text},
                                         {"tokens", piece.end->tokens},
                                         {"ended", word_of(piece.end->reason)}};
    return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  const std::string sample = samples_ > 1 ? ", sample " + std::to_string(piece.sample + 1) : "";
  return "== prompt " + std::to_string(piece.prompt + 1) + sample + " ==\n" + prompt.shown + piece.end->text + "\n";
}

void SampleOutput::write(const std::string& text) {
  if (file_ != nullptr)
    file_->append(text);
  else if (form_ == Form::json_lines)
    write_json(text);
  else
    write_model_text(text);
}

void SampleOutput::report() const {
  const double seconds = seconds_between(start_, Clock::now());
  log().info("{} of {} texts; {} tokens in {}, {:.0f} a second", next_, std::ssize(prompts_) * samples_, tokens_,
             format_duration(seconds), static_cast<double>(tokens_) / seconds);
}

void SampleOutput::end() const {
  if (file_ != nullptr && next_ > first_) report();
}

void SampleOutput::add(const SamplePiece& piece) {
  // Loading the model is no part of the rate.
  if (!std::exchange(has_begun_, true)) {
    start_ = reported_ = Clock::now();
    if (form_ == Form::text && is_single()) write_model_text(prompts_.front().shown);
  }
  if (form_ == Form::text && is_single()) {
    write_model_text(piece.text + (piece.end ? "\n" : ""));
    return;
  }
  if (!piece.end) return;
  tokens_ += std::ssize(piece.end->tokens);
  waiting_.emplace(piece.prompt * samples_ + piece.sample, finished(piece));
  for (auto first = waiting_.find(next_); first != waiting_.end(); first = waiting_.find(++next_)) {
    write(first->second);
    waiting_.erase(first);
  }
  constexpr std::chrono::seconds between_reports{10};
  if (file_ == nullptr || Clock::now() - reported_ < between_reports) return;
  report();
  reported_ = Clock::now();
}

}  // namespace llmtrain::app
