// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/data/token_formats.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// How token files are laid out; core/data/token_source.h describes what reads them.
enum class TokenFileFormat {
  megatron,  // PREFIX.bin and PREFIX.idx, which holds the documents' lengths
  nanogpt,   // PREFIX.bin of uint16 without a header
  llmc       // PREFIX.bin with a header; uint16 or uint32
};

// Writes documents into a new token file. The files appear under their names when they are complete and on the disk;
// until then, and after a failure, they are beside them with ".partial" at the end or gone.
class TokenFileWriter {
 public:
  // Throws Error(cannot_write) where a file of that name exists or none can be written, and Error(bad_recipe) where the
  // format cannot hold ids up to `vocab_size` − 1.
  TokenFileWriter(std::filesystem::path prefix, TokenFileFormat format, std::int64_t vocab_size);

  // Throws Error(bad_data) where the format cannot hold so many tokens.
  void add(std::span<const TokenId> document);
  // Puts the files in place.
  void close();

  const std::filesystem::path& file() const { return file_; }
  TokenType type() const { return type_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }

 private:
  void write_llmc_count();
  std::string index() const;

  TokenFileFormat format_;
  TokenType type_;
  std::filesystem::path file_, index_file_, partial_file_;
  std::optional<FileWriter> writer_;
  std::vector<std::int32_t> lengths_;  // Megatron's index alone needs them
  std::int64_t tokens_ = 0;
  std::int64_t documents_ = 0;
  std::string buffer_;
};

}  // namespace llmtrain
