// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/long_work.h"
#include "core/data/records/bad_lines.h"
#include "core/recipe/recipe.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// Texts of which every token is scored once, as loglikelihood_rolling of lm-evaluation-harness cuts them
// (get_rolling_token_windows and make_disjoint_window in its lm_eval/utils.py, with a context of one token): a prefix
// token, and windows of at most `window` inputs, each of whose targets follows the last that was scored. The last
// window of a long text is as long as the others: its first rows are context alone.
class RollingTexts {
 public:
  // What is counted of texts, with or without tokens.
  struct Counts {
    std::int64_t texts = 0;
    std::int64_t words = 0;  // pieces between white space, as Python's re.split(r"\s+", text) counts them: at least 1
    std::int64_t bytes = 0;  // of UTF-8
    std::int64_t tokens = 0;

    bool operator==(const Counts&) const = default;
  };
  // Consecutive inputs of ids(), each with the id behind it as its target, of which the last `scored` count.
  struct Window {
    std::int64_t begin = 0;
    std::int64_t length = 0;
    std::int64_t scored = 0;

    bool operator==(const Window&) const = default;
  };

  // The documents of text files that each source's path names. Throws what find_files(), open_document_records(),
  // open_tokenizer() and encoding throw, and Error(bad_data) for ids that are not below the model's vocabulary, behind
  // name_of_source(), for which the role's list has the first of the sources at `first_source`.
  RollingTexts(const std::vector<DataSource>& sources, const Recipe& recipe, std::int64_t window,
               const std::string& role, std::size_t first_source = 0, const WorkMonitor& monitor = {});

  const Counts& counts() const { return counts_; }
  const std::vector<Window>& windows() const { return windows_; }
  const std::vector<TokenId>& ids() const { return ids_; }
  std::int64_t longest_window() const;  // 0 without one
  const BadLines& bad_lines() const { return bad_lines_; }

 private:
  class Encoder;

  void add_file(const std::filesystem::path& file, const std::string& key, Encoder& encoder, const ReportShare& report);
  void add(const std::string& text, Encoder& encoder);

  std::int64_t window_, vocab_size_;
  Counts counts_;
  std::vector<TokenId> ids_;  // of each text that has tokens: the prefix, and these
  std::vector<Window> windows_;
  BadLines bad_lines_;
};

}  // namespace llmtrain
