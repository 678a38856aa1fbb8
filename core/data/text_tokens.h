// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/long_work.h"
#include "core/data/records/bad_lines.h"
#include "core/data/records/documents.h"
#include "core/recipe/recipe.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// What text became, and what of it was skipped.
struct TextBytes {
  std::string bytes;
  BadLines bad_lines;
};
struct TokenizedText {
  std::vector<TokenId> tokens;
  BadLines bad_lines;
};

// Turns files of text into tokens in memory for a dataset, with the tokenizer of its recipe. The tokenizer's file is
// opened with the first text: token files need none.
class TextTokens {
 public:
  // `key`: of the documents in files of rows (core/data/records/documents.h).
  TextTokens(TokenizerRecipe tokenizer, std::int64_t vocab_size, OnBadLine on_bad_line = OnBadLine::stop,
             std::string key = document_key);

  // Whether tokens are the text's bytes.
  bool is_bytes() const { return recipe_.kind == TokenizerKind::bytes; }
  const std::string& key() const { return key_; }
  // The bytes of all documents of a file, one after another.
  TextBytes bytes_of(const std::filesystem::path& file, const ReportShare& report = report_nothing) const;
  // The tokens of all documents of a file that are not empty, with the tokenizer's marks, little-endian 32-bit
  // integers. Ranks that are threads of one process share them. Throws what open_tokenizer(), RecordReader and encoding
  // throw.
  std::shared_ptr<const TokenizedText> tokens_of(const std::filesystem::path& file,
                                                 const ReportShare& report = report_nothing);

 private:
  TokenizedText encode_file(const std::filesystem::path& file, const ReportShare& report);

  TokenizerRecipe recipe_;
  std::int64_t vocab_size_;
  OnBadLine on_bad_line_;
  std::string key_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<TextEncoder> encoder_;
};

}  // namespace llmtrain
