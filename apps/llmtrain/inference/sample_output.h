// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/llmtrain/inference/sample_file.h"
#include "core/json/json_text.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain::app {

// What a text follows, for readers.
struct SamplePrompt {
  Json json;          // a text, or a list of messages
  std::string shown;  // stands before the text
};

// Writes texts to standard output or a file: a single one as it grows, several in the order of their prompts, each when
// it has ended.
class SampleOutput {
 public:
  enum class Form { text, json_lines };

  SampleOutput(std::vector<SamplePrompt> prompts, std::int64_t samples, Form form)
      : prompts_(std::move(prompts)), samples_(samples), form_(form) {}
  // JSON Lines go to the file, which outlives this, after those that it has; lines of the log say how far they are.
  SampleOutput(std::vector<SamplePrompt> prompts, std::int64_t samples, SampleFile& file)
      : prompts_(std::move(prompts)),
        samples_(samples),
        form_(Form::json_lines),
        file_(&file),
        first_(file.first_prompt() * samples),
        next_(first_) {}

  void add(const SamplePiece& piece);
  // Says how many texts the file has, and how fast those of this call came; without a file nothing.
  void end() const;

 private:
  bool is_single() const { return static_cast<std::int64_t>(prompts_.size()) * samples_ == 1; }
  std::string finished(const SamplePiece& piece) const;
  void write(const std::string& text);
  void report() const;

  std::vector<SamplePrompt> prompts_;
  std::int64_t samples_;
  Form form_;
  std::map<std::int64_t, std::string> waiting_;  // ended before one that comes first, by number
  SampleFile* file_ = nullptr;
  std::int64_t first_ = 0, next_ = 0;
  bool has_begun_ = false;
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now(), reported_ = start_;
  std::int64_t tokens_ = 0;  // of texts that have ended
};

}  // namespace llmtrain::app
