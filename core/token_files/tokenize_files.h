// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"
#include "core/token_files/token_file_writer.h"
#include "core/token_files/tokenize_journal.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

struct TokenizeJob {
  std::vector<std::filesystem::path> files;  // of text (core/data/records/documents.h)
  std::string key;                           // of the documents in JSON Lines
  int threads = 1;
  std::size_t batch_bytes = 1 << 20;  // of text that a thread encodes at a time
  double save_seconds = 5;            // between the times at which the writer saves
  OnBadLine on_bad_line = OnBadLine::stop;
};

// All that a job's result follows from: the content of the tokenizer's files, the format, and the files of text by
// their paths, sizes and times.
JobDescription description_of(const TokenizeJob& job, const TokenizerRecipe& tokenizer, const std::string& format);

struct TokenizeProgress {
  std::int64_t file_bytes = 0;      // read of the files, packed or not
  std::int64_t all_file_bytes = 0;  // their sizes
  std::int64_t text_bytes = 0;      // of the records that are tokenised

  double share() const {
    return all_file_bytes > 0 ? static_cast<double>(file_bytes) / static_cast<double>(all_file_bytes) : 1;
  }
};

// Tokenises the documents of all files in their order, with the tokenizer's marks around each; empty ones are left out.
// Reads on the calling thread, encodes on job.threads others, and calls `report` where it begins and from time to time,
// also while it waits for a long document; throws what that throws, and abandons the document.
// The result does not depend on the number of threads. Goes on where the writer says that an interrupted one had come
// to, and lets it save from time to time and at the end. Throws Error(missing_input), Error(bad_data), or
// Error(cannot_write), also where the interrupted one has skipped lines that are to stop this one.
TokenizeProgress tokenize_files(const TokenizeJob& job, const Tokenizer& tokenizer, TokenFileWriter& writer,
                                const std::function<void(const TokenizeProgress&)>& report);

}  // namespace llmtrain
