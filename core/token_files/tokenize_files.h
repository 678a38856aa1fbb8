// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/token_files/token_file_writer.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

struct TokenizeJob {
  std::vector<std::filesystem::path> files;  // of text (core/data/documents.h)
  std::string key;                           // of the documents in JSON Lines
  int threads = 1;
};

struct TokenizeProgress {
  std::int64_t file_bytes = 0;      // read of the files, packed or not
  std::int64_t all_file_bytes = 0;  // their sizes
  std::int64_t text_bytes = 0;      // of the records that are tokenised
};

// Tokenises the documents of all files in their order, with the tokenizer's marks around each; empty ones are left out.
// Reads on the calling thread, encodes on job.threads others, and calls `report` from time to time. The result does not
// depend on the number of threads. Throws Error(missing_input), Error(bad_data) or Error(cannot_write).
TokenizeProgress tokenize_files(const TokenizeJob& job, const Tokenizer& tokenizer, TokenFileWriter& writer,
                                const std::function<void(const TokenizeProgress&)>& report);

}  // namespace llmtrain
