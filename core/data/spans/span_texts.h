// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/long_work.h"
#include "core/data/records/bad_lines.h"
#include "core/data/spans/placed_encoder.h"
#include "core/data/spans/span_record.h"
#include "core/recipe/data_recipe.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// Where questions and their texts are, and as what they are read.
struct SpanFiles {
  std::string path;  // what find_files() takes
  TokenizerRecipe tokenizer{};
  SpansRecipe spans{};
  std::int64_t longest = 0;  // tokens of a window, the question and the tokenizer's marks included
  std::int64_t vocab_size = 0;
  OnBadLine on_bad_line = OnBadLine::stop;
};

// The tokens of questions, each with a window of its text, in memory. Immutable.
class SpanTexts {
 public:
  // A question and a part of its text, as the tokenizer puts two texts into a sequence.
  struct Window {
    std::span<const TokenId> ids;
    std::span<const std::uint8_t> types;   // token_types
    std::array<std::int32_t, 2> answer{};  // rows; the first one twice where the window holds no whole answer
    std::int64_t question = 0;             // its number
    std::int64_t first_row = 0;            // of the text
    std::span<const TextPlace> places{};   // in the question's text, of the rows from that one on
  };
  struct Question {
    std::string context;
    std::vector<std::string> answers;
    std::int64_t first_window = 0, windows = 0;
  };

  // Its files are rows: JSON Lines, JSON or tables. Ranks that are threads of one process share the result. The answer
  // to learn is the first one. A question that is too long loses its end; one without tokens, or about a text without
  // any, is left out. Throws what find_files(), open_tokenizer(), RecordReader, span_record() and encoding throw, and
  // Error(bad_data) for other files, where the marks leave no room for more of a text than windows share, and where
  // there is no question.
  static std::shared_ptr<const SpanTexts> open(const SpanFiles& files, const ReportShare& report = report_nothing);

  std::int64_t count() const { return std::ssize(windows_); }
  Window window(std::int64_t number) const;
  std::int64_t questions() const { return std::ssize(questions_); }
  const Question& question(std::int64_t number) const { return questions_.at(static_cast<std::size_t>(number)); }
  std::int64_t tokens() const { return std::ssize(ids_); }
  // The id that fills what a window leaves of a sequence: the tokenizer's, else 0.
  std::int64_t padding() const { return padding_; }
  const std::vector<std::filesystem::path>& paths() const { return paths_; }
  const BadLines& bad_lines() const { return bad_lines_; }
  std::int64_t without_words() const { return without_words_; }

 private:
  class Encoder;
  struct Stored {
    std::size_t begin = 0, end = 0;  // in ids_
    std::array<std::int32_t, 2> answer{};
    std::int64_t question = 0, first_row = 0;
    std::size_t first_place = 0, places = 0;  // in places_
  };

  void add_file(const std::filesystem::path& file, const SpanFiles& files, Encoder& encoder, const ReportShare& report);
  void add_question(SpanRecord read, const Encoder& encoder);

  std::vector<TokenId> ids_;
  std::vector<std::uint8_t> types_;
  std::vector<TextPlace> places_;  // of the tokens of all texts
  std::vector<Stored> windows_;
  std::vector<Question> questions_;
  std::int64_t padding_ = 0, without_words_ = 0;
  std::vector<std::filesystem::path> paths_;
  BadLines bad_lines_;
};

}  // namespace llmtrain
