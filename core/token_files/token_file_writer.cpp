// SPDX-License-Identifier: Apache-2.0
#include "core/token_files/token_file_writer.h"

#include <spdlog/fmt/fmt.h>

#include <cstring>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/data/records/skipped_lines.h"

namespace llmtrain {
namespace {

using namespace std::string_view_literals;

constexpr std::int64_t uint16_ids = 65536;
// Megatron-LM's DType.optimal_dtype(): it stores ids of smaller vocabularies in 16 bits.
constexpr std::int64_t megatron_uint16_ids = 65500;

// Documents are collected to it: a call of the system for each would cost more than a short document's encoding.
constexpr std::size_t buffered_bytes = 1 << 20;

template <class Integer>
void append(std::string& bytes, Integer value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

TokenType type_for(TokenFileFormat format, std::int64_t vocab_size) {
  switch (format) {
    case TokenFileFormat::megatron:
      return vocab_size < megatron_uint16_ids ? TokenType::u16 : TokenType::i32;
    case TokenFileFormat::nanogpt:
      if (vocab_size <= uint16_ids) return TokenType::u16;
      throw Error(ExitCode::bad_recipe, fmt::format("nanoGPT's files hold ids below 65536, the tokenizer has {}; use "
                                                    "the format megatron or llm.c",
                                                    vocab_size));
    case TokenFileFormat::llmc:
      return vocab_size <= uint16_ids ? TokenType::u16 : TokenType::u32;
  }
  throw std::logic_error("not a format of token files");
}

void refuse_existing(const std::filesystem::path& file) {
  if (entry_exists(file))
    throw Error(ExitCode::cannot_write, file.string() + ": exists already; remove it or name another file");
}

void put_in_place(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code failure;
  std::filesystem::rename(from, to, failure);
  if (failure) throw Error(ExitCode::cannot_write, to.string() + ": cannot be put in place: " + failure.message());
}

// −1 where there is none.
std::int64_t size_of_file(const std::filesystem::path& file) {
  std::error_code failure;
  const auto bytes = std::filesystem::file_size(file, failure);
  return failure ? -1 : static_cast<std::int64_t>(bytes);
}

void remove_quietly(const std::filesystem::path& file) noexcept {
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
}

std::filesystem::path with_ending(std::filesystem::path path, std::string_view ending) { return path += ending; }

}  // namespace

TokenFileWriter::TokenFileWriter(const std::filesystem::path& prefix, TokenFileFormat format, std::int64_t vocab_size,
                                 std::optional<JobDescription> job)
    : format_(format), type_(type_for(format, vocab_size)) {
  const std::filesystem::path plain =
      prefix.extension() == ".bin" ? std::filesystem::path(prefix).replace_extension() : prefix;
  file_ = with_ending(plain, ".bin");
  index_file_ = with_ending(plain, ".idx");
  partial_file_ = with_ending(file_, ".partial");
  lengths_file_ = with_ending(plain, ".lengths.partial");
  if (job) journal_.emplace(with_ending(file_, ".progress"), std::move(*job));
  if (resume()) return;
  refuse_existing(file_);
  // An index beside another format's tokens would be read as theirs.
  refuse_existing(index_file_);
  begin();
}

TokenFileWriter::~TokenFileWriter() {
  if (!tokens_file_ || is_left_) return;
  remove_leftovers();
  remove_quietly(partial_file_);
}

bool TokenFileWriter::resume() {
  const auto state = journal_ ? journal_->read() : std::nullopt;
  if (!state) return false;
  resumed_ = *state;
  tokens_ = state->tokens;
  documents_ = state->documents;
  bad_lines_ = state->bad_lines;
  // Killed after the last rename: only the leftovers are still to be removed.
  if (!entry_exists(partial_file_) && size_of_file(file_) == bytes()) {
    remove_leftovers();
    return true;
  }
  const bool has_lengths = format_ == TokenFileFormat::megatron;
  const auto length_bytes = documents_ * std::int64_t{sizeof(std::int32_t)};
  // What was saved was flushed before, so that shorter files are not those.
  if (entry_exists(file_) || size_of_file(partial_file_) < bytes() ||
      (has_lengths && size_of_file(lengths_file_) < length_bytes)) {
    resumed_ = {};
    tokens_ = documents_ = 0;
    bad_lines_ = resumed_.bad_lines;
    return false;
  }
  if (has_lengths) {
    const std::string saved = read_file(lengths_file_);
    lengths_.resize(static_cast<std::size_t>(documents_));
    std::memcpy(lengths_.data(), saved.data(), static_cast<std::size_t>(length_bytes));
    lengths_saved_ = lengths_.size();
  }
  open_files(bytes());
  // An interrupted close() may have left an index: there was none when the job began.
  remove_quietly(index_file_);
  return true;
}

void TokenFileWriter::open_files(std::int64_t kept_bytes) {
  tokens_file_.emplace(partial_file_, kept_bytes);
  if (journal_ && format_ == TokenFileFormat::megatron)
    lengths_saver_.emplace(lengths_file_, documents_ * std::int64_t{sizeof(std::int32_t)});
}

void TokenFileWriter::begin() {
  open_files(0);
  if (format_ != TokenFileFormat::llmc) return;
  // The count follows in close().
  const bool small = type_ == TokenType::u16;
  std::string header;
  append<std::int32_t>(header, small ? llmc_uint16_magic : llmc_uint32_magic);
  append<std::int32_t>(header, small ? llmc_uint16_version : llmc_uint32_version);
  header.resize(llmc_header_bytes);
  tokens_file_->append(header.data(), header.size());
}

std::int64_t TokenFileWriter::bytes() const {
  const auto header = format_ == TokenFileFormat::llmc ? static_cast<std::int64_t>(llmc_header_bytes) : 0;
  return header + tokens_ * size_of(type_);
}

void TokenFileWriter::add(std::span<const TokenId> document) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (format_ == TokenFileFormat::megatron && std::ssize(document) > most)
    throw Error(ExitCode::bad_data, "a document of 2^31 tokens or more does not fit Megatron-LM's index; split it");
  if (format_ == TokenFileFormat::llmc && tokens_ + std::ssize(document) > most)
    throw Error(ExitCode::bad_data, file_.string() +
                                        ": llm.c's files hold less than 2^31 tokens; tokenize fewer files "
                                        "into each, or use the format megatron");
  for (const TokenId id : document)
    type_ == TokenType::u16 ? append(buffer_, static_cast<std::uint16_t>(id)) : append(buffer_, id);
  if (buffer_.size() >= buffered_bytes) write_buffer();
  if (format_ == TokenFileFormat::megatron) lengths_.push_back(static_cast<std::int32_t>(document.size()));
  tokens_ += std::ssize(document);
  ++documents_;
}

void TokenFileWriter::write_buffer() {
  tokens_file_->append(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void TokenFileWriter::save(const TextPosition& next, std::int64_t text_bytes) {
  if (!tokens_file_ || !journal_) return;
  write_buffer();
  tokens_file_->flush();
  if (lengths_saver_) {
    const auto unsaved = std::span(lengths_).subspan(lengths_saved_);
    lengths_saver_->append(unsaved.data(), unsaved.size_bytes());
    lengths_saver_->flush();
    lengths_saved_ = lengths_.size();
  }
  journal_->write({next, tokens_, documents_, text_bytes, bad_lines_});
}

void TokenFileWriter::close() {
  if (!tokens_file_) return;
  write_buffer();
  const auto count = static_cast<std::int32_t>(tokens_);
  if (format_ == TokenFileFormat::llmc) tokens_file_->overwrite(8, &count, sizeof count);
  tokens_file_->flush();
  // Before the tokens: an index without them is missing data, tokens without it would be read as raw uint16.
  if (format_ == TokenFileFormat::megatron) write_index();
  keep_skipped_lines(file_, bad_lines_);
  put_in_place(partial_file_, file_);
  flush_directory(std::filesystem::absolute(file_).parent_path());
  tokens_file_.reset();
  remove_leftovers();
}

void TokenFileWriter::remove_leftovers() const noexcept {
  if (!journal_) return;
  remove_quietly(lengths_file_);
  // Last: without it nothing says what the others were.
  remove_quietly(journal_->file());
}

void TokenFileWriter::write_index() const { write_file_atomically(index_file_, index()); }

// megatron/core/datasets/indexed_dataset.py, _IndexWriter.
std::string TokenFileWriter::index() const {
  std::string bytes(index_magic);
  append<std::uint64_t>(bytes, 1);
  append<std::uint8_t>(bytes, type_ == TokenType::u16 ? 8 : 4);
  append<std::uint64_t>(bytes, lengths_.size());
  append<std::uint64_t>(bytes, lengths_.size() + 1);
  for (const std::int32_t length : lengths_) append(bytes, length);
  std::int64_t offset = 0;
  for (const std::int32_t length : lengths_) {
    append(bytes, offset);
    offset += length * size_of(type_);
  }
  // Each sequence is a document.
  for (std::size_t document = 0; document <= lengths_.size(); ++document)
    append<std::int64_t>(bytes, static_cast<std::int64_t>(document));
  return bytes;
}

}  // namespace llmtrain
