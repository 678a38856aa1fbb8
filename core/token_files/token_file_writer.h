// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/token_formats.h"
#include "core/token_files/growing_file.h"
#include "core/token_files/tokenize_journal.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// How token files are laid out; core/data/token_source.h describes what reads them.
enum class TokenFileFormat {
  megatron,  // PREFIX.bin and PREFIX.idx, which holds the documents' lengths
  nanogpt,   // PREFIX.bin of uint16 without a header
  llmc       // PREFIX.bin with a header; uint16 or uint32
};

// Writes documents into a new token file. The files appear under their names when they are complete and on the disk;
// until then they are beside them with ".partial" at the end. After a failure they are gone; after a kill they stay,
// and another writer of the same job goes on with them.
class TokenFileWriter {
 public:
  // `job` is all that the documents follow from; none: the writer always begins anew, and cannot be interrupted. Throws
  // Error(cannot_write) where a file of that name exists, none can be written, another process writes it, or another
  // job was interrupted there, and Error(bad_recipe) where the format cannot hold ids up to `vocab_size` − 1.
  TokenFileWriter(const std::filesystem::path& prefix, TokenFileFormat format, std::int64_t vocab_size,
                  std::optional<JobDescription> job = std::nullopt);
  ~TokenFileWriter();
  TokenFileWriter(const TokenFileWriter&) = delete;
  TokenFileWriter& operator=(const TokenFileWriter&) = delete;

  // How far an interrupted writer of the job had come; the documents after that are to be added.
  const JobState& resumed() const { return resumed_; }

  // Throws Error(bad_data) where the format cannot hold so many tokens.
  void add(std::span<const TokenId> document);
  // Counts lines of the text that became no documents.
  void add_skipped(const BadLines& lines) { bad_lines_.add(lines); }
  // Makes sure that another writer goes on here, at `next`, should this one be killed. Blocks until all is on the disk.
  void save(const TextPosition& next, std::int64_t text_bytes);
  // Leaves what has been saved to another writer of the same job, as after a kill, instead of removing it.
  void leave_to_another() { is_left_ = true; }
  // Puts the files in place, and beside them what was skipped (core/data/records/skipped_lines.h).
  void close();

  const std::filesystem::path& file() const { return file_; }
  TokenType type() const { return type_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }
  const BadLines& bad_lines() const { return bad_lines_; }

 private:
  // Takes over what an interrupted writer has saved; false where that is nothing.
  bool resume();
  void begin();
  void open_files(std::int64_t kept_bytes);
  // How long the token file is when all that has been added is written.
  std::int64_t bytes() const;
  void write_buffer();
  void write_index() const;
  std::string index() const;
  void remove_leftovers() const noexcept;

  TokenFileFormat format_;
  TokenType type_;
  std::filesystem::path file_, index_file_, partial_file_, lengths_file_;
  std::optional<TokenizeJournal> journal_;
  JobState resumed_;
  std::optional<GrowingFile> tokens_file_;  // none once the files are in place
  std::optional<GrowingFile> lengths_saver_;
  std::vector<std::int32_t> lengths_;  // Megatron's index alone needs them
  std::size_t lengths_saved_ = 0;
  std::int64_t tokens_ = 0;
  std::int64_t documents_ = 0;
  BadLines bad_lines_{OnBadLine::skip};
  std::string buffer_;  // tokens that are not in the file yet
  bool is_left_ = false;
};

}  // namespace llmtrain
