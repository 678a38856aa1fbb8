// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/long_work.h"
#include "core/data/records/bad_lines.h"
#include "core/recipe/data_recipe.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// Where texts with labels are, and as what they are read.
struct LabelledFiles {
  std::string path;  // what find_files() takes
  TokenizerRecipe tokenizer{};
  LabelsRecipe labels{};
  std::int64_t longest = 0;  // tokens that are kept of a text, or of two, the tokenizer's marks included
  std::int64_t vocab_size = 0;
  OnBadLine on_bad_line = OnBadLine::stop;
};

// The tokens of the texts of one source and their labels, in memory. Immutable.
class LabelledTexts {
 public:
  // One text, or two, as the tokenizer puts them into a sequence.
  struct Example {
    std::span<const TokenId> ids;
    std::span<const std::uint8_t> types;  // token_types
    // The label of the row where each word begins, and else no_label; or the one label of a text, alone.
    std::span<const std::int32_t> labels;
  };
  static constexpr std::int32_t no_label = -1;

  // Its files are rows: JSON Lines, JSON or tables. Ranks that are threads of one process share the result. Of what is
  // too long the longer text loses its end, token by token, the second one where both are as long; a word is cut with
  // its text, and counts if its first token is there. Throws what find_files(), open_tokenizer(), RecordReader,
  // labelled_record() and encoding throw, and Error(bad_data) for other files, where the marks leave no room, and where
  // there is no text with a label.
  static std::shared_ptr<const LabelledTexts> open(const LabelledFiles& files,
                                                   const ReportShare& report = report_nothing);

  std::int64_t count() const { return std::ssize(begins_) - 1; }
  Example example(std::int64_t number) const;
  // Labels of an example: 1, or of words as many as there are.
  std::int64_t labels_of(std::int64_t number) const { return counted_.at(static_cast<std::size_t>(number)); }
  std::int64_t tokens() const { return std::ssize(ids_); }
  // The id that fills what a text leaves of a sequence: the tokenizer's, else 0.
  std::int64_t padding() const { return padding_; }
  LabelledPart part() const { return part_; }
  const std::vector<std::filesystem::path>& paths() const { return paths_; }
  const BadLines& bad_lines() const { return bad_lines_; }
  std::int64_t truncated() const { return truncated_; }
  std::int64_t without_words() const { return without_words_; }

 private:
  class Encoder;

  void add_file(const std::filesystem::path& file, const LabelledFiles& files, Encoder& encoder,
                const ReportShare& report);

  LabelledPart part_ = LabelledPart::text;
  std::vector<TokenId> ids_;
  std::vector<std::uint8_t> types_;
  std::vector<std::int32_t> labels_;    // by row of words, else by example
  std::vector<std::size_t> begins_{0};  // in ids_, and the end
  std::vector<std::int64_t> counted_;
  std::int64_t padding_ = 0, truncated_ = 0, without_words_ = 0;
  std::vector<std::filesystem::path> paths_;
  BadLines bad_lines_;
};

}  // namespace llmtrain
