// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/inference/sample_output.h"

#include <cstddef>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/llmtrain/standard_streams.h"

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

void SampleOutput::add(const SamplePiece& piece) {
  if (form_ == Form::text && static_cast<std::int64_t>(prompts_.size()) * samples_ == 1) {
    // Not before the model has been loaded: that may fail.
    if (!std::exchange(has_begun_, true)) write_model_text(prompts_.front().shown);
    write_model_text(piece.text + (piece.end ? "\n" : ""));
    return;
  }
  if (!piece.end) return;
  waiting_.emplace(piece.prompt * samples_ + piece.sample, finished(piece));
  for (auto first = waiting_.find(next_); first != waiting_.end(); first = waiting_.find(++next_)) {
    form_ == Form::json_lines ? write_json(first->second) : write_model_text(first->second);
    waiting_.erase(first);
  }
}

}  // namespace llmtrain::app
