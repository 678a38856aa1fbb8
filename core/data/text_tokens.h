// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/long_work.h"
#include "core/recipe/recipe.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// Turns files of text into tokens in memory for a dataset, with the tokenizer of its recipe. The tokenizer's file is
// opened with the first text: token files need none.
class TextTokens {
 public:
  TextTokens(TokenizerRecipe tokenizer, std::int64_t vocab_size);

  // Whether tokens are the text's bytes.
  bool is_bytes() const { return recipe_.kind == TokenizerKind::bytes; }
  // The bytes of all documents of a file, one after another.
  std::string bytes_of(const std::filesystem::path& file, const ReportShare& report = report_nothing) const;
  // The tokens of all documents of a file that are not empty, with the tokenizer's marks, little-endian 32-bit
  // integers. Ranks that are threads of one process share them. Throws what open_tokenizer(), RecordReader and encoding
  // throw.
  std::shared_ptr<const std::vector<TokenId>> tokens_of(const std::filesystem::path& file,
                                                        const ReportShare& report = report_nothing);

 private:
  std::vector<TokenId> encode_file(const std::filesystem::path& file, const ReportShare& report);

  TokenizerRecipe recipe_;
  std::int64_t vocab_size_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<TextEncoder> encoder_;
};

}  // namespace llmtrain
