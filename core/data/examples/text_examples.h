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

// Where texts are, and as what they are read.
struct TextFiles {
  std::string path;  // what find_files() takes
  TokenizerRecipe tokenizer{};
  std::string key = document_key;  // of the text in rows (core/data/records/record_reader.h)
  std::int64_t longest = 0;        // tokens that are kept of a text, the tokenizer's marks included
  std::int64_t vocab_size = 0;
  OnBadLine on_bad_line = OnBadLine::stop;
};

// The tokens of the texts of one source, text by text, in memory. Immutable.
class TextExamples {
 public:
  // Ranks that are threads of one process share the result. A text that is too long loses its end, not the mark that
  // the tokenizer puts there; one without tokens is left out. Throws what find_files(), open_tokenizer(), RecordReader
  // and encoding throw, and Error(bad_data) for token files, where the marks leave no room, and where there is no text.
  static std::shared_ptr<const TextExamples> open(const TextFiles& files, const ReportShare& report = report_nothing);

  std::int64_t count() const { return std::ssize(begins_) - 1; }
  std::span<const TokenId> ids(std::int64_t text) const {
    const auto place = static_cast<std::size_t>(text);
    return std::span(ids_).subspan(begins_.at(place), begins_.at(place + 1) - begins_[place]);
  }
  std::int64_t tokens() const { return std::ssize(ids_); }
  // The id that fills what a text leaves of a sequence: the tokenizer's, else 0.
  std::int64_t padding() const { return padding_; }
  const std::vector<std::filesystem::path>& paths() const { return paths_; }
  const BadLines& bad_lines() const { return bad_lines_; }
  std::int64_t truncated() const { return truncated_; }

 private:
  struct Encoder;

  void add_file(const std::filesystem::path& file, const TextFiles& files, Encoder& encoder, const ReportShare& report);

  std::vector<TokenId> ids_;
  std::vector<std::size_t> begins_{0};  // in ids_, and the end
  std::int64_t padding_ = 0, truncated_ = 0;
  std::vector<std::filesystem::path> paths_;
  BadLines bad_lines_;
};

}  // namespace llmtrain
