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

// Where pairs of texts are, and as what they are read.
struct PairFiles {
  std::string path;  // what find_files() takes
  TokenizerRecipe tokenizer{};
  PairsRecipe pairs{};
  // Tokens that are kept of a source and of a target, the tokenizer's marks included.
  std::int64_t longest_source = 0, longest_target = 0;
  std::int64_t vocab_size = 0;
  OnBadLine on_bad_line = OnBadLine::stop;
  bool keeps_targets = false;  // as they are written, beside their tokens
};

// The tokens of sources and their targets, such as texts and their translations, in memory. Immutable.
class PairTexts {
 public:
  struct Pair {
    std::span<const TokenId> source, target;  // as the tokenizer puts each into a sequence of its own
  };

  // Its files are rows: JSON Lines, JSON or tables. Ranks that are threads of one process share the result. A text that
  // is too long loses its end, not the mark there; a pair of which one text has no tokens is left out. Throws what
  // find_files(), open_tokenizer(), RecordReader, ExampleRow and encoding throw, and Error(bad_data) for other files,
  // where the marks leave no room, where the tokenizer puts no mark at the end of a text, as nothing would end a
  // prediction then, where it has no padding and the recipe no decoder_start, and where there is no pair.
  static std::shared_ptr<const PairTexts> open(const PairFiles& files, const ReportShare& report = report_nothing);

  std::int64_t count() const { return std::ssize(targets_.begins) - 1; }
  Pair pair(std::int64_t number) const { return {sources_.text(number), targets_.text(number)}; }
  // All of a target, as it stands in its file, where PairFiles::keeps_targets.
  const std::string& written_target(std::int64_t number) const {
    return written_targets_.at(static_cast<std::size_t>(number));
  }
  // How many, of sources and targets.
  std::int64_t tokens() const { return std::ssize(sources_.ids) + std::ssize(targets_.ids); }
  // The id that fills what a text leaves of a sequence: the tokenizer's, else 0.
  std::int64_t padding() const { return padding_; }
  // The id after which a target's first token is predicted.
  std::int64_t decoder_start() const { return decoder_start_; }
  const std::vector<std::filesystem::path>& paths() const { return paths_; }
  const BadLines& bad_lines() const { return bad_lines_; }
  // Pairs of which one text or both were cut.
  std::int64_t truncated() const { return truncated_; }
  std::int64_t without_words() const { return without_words_; }

 private:
  class Encoder;
  struct Texts {
    std::vector<TokenId> ids;
    std::vector<std::size_t> begins{0};  // in ids, and the end

    std::span<const TokenId> text(std::int64_t number) const {
      const auto place = static_cast<std::size_t>(number);
      return std::span(ids).subspan(begins.at(place), begins.at(place + 1) - begins[place]);
    }
  };

  void add_file(const std::filesystem::path& file, const PairFiles& files, Encoder& encoder, const ReportShare& report);

  Texts sources_, targets_;
  std::vector<std::string> written_targets_;
  std::int64_t padding_ = 0, decoder_start_ = 0, truncated_ = 0, without_words_ = 0;
  std::vector<std::filesystem::path> paths_;
  BadLines bad_lines_;
};

}  // namespace llmtrain
