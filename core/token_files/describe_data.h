// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/data/records/bad_lines.h"
#include "core/data/records/documents.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// What a data file holds.
struct DataDescription {
  std::string format;  // "Megatron-LM, uint16", "text, gzip", …
  std::int64_t file_bytes = 0;
  std::optional<std::int64_t> documents;   // unknown in token files without an index
  std::optional<std::int64_t> tokens;      // of text: with a tokenizer
  std::optional<std::int64_t> largest_id;  // where there are tokens
  std::vector<std::int64_t> first_tokens;  // at most as many as were asked for
  BadLines bad_lines;                      // that are no documents
  std::optional<std::string> first_text;   // what they stand for, or the text's beginning
};

// Reads all of a file; `key` is that of the documents in rows. `tokenizer` may be null: ids are then not decoded, and
// text is not tokenised. Throws Error(missing_input) or Error(bad_data).
DataDescription describe_data(const std::filesystem::path& file, const Tokenizer* tokenizer, std::int64_t first_tokens,
                              OnBadLine on_bad_line = OnBadLine::stop, const std::string& key = document_key);

}  // namespace llmtrain
