// SPDX-License-Identifier: Apache-2.0
#include "core/token_files/token_file_writer.h"

#include <spdlog/fmt/fmt.h>

#include <fstream>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/base/error.h"

namespace llmtrain {
namespace {

using namespace std::string_view_literals;

constexpr std::int64_t uint16_ids = 65536;
// Megatron-LM's DType.optimal_dtype(): it stores ids of smaller vocabularies in 16 bits.
constexpr std::int64_t megatron_uint16_ids = 65500;

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
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(file, ignored)))
    throw Error(ExitCode::cannot_write, file.string() + ": exists already; remove it or name another file");
}

void put_in_place(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::error_code failure;
  std::filesystem::rename(from, to, failure);
  if (failure) throw Error(ExitCode::cannot_write, to.string() + ": cannot be put in place: " + failure.message());
}

std::filesystem::path with_ending(std::filesystem::path path, std::string_view ending) { return path += ending; }

}  // namespace

TokenFileWriter::TokenFileWriter(std::filesystem::path prefix, TokenFileFormat format, std::int64_t vocab_size)
    : format_(format), type_(type_for(format, vocab_size)) {
  if (prefix.extension() == ".bin") prefix.replace_extension();
  file_ = with_ending(prefix, ".bin");
  index_file_ = with_ending(prefix, ".idx");
  partial_file_ = with_ending(file_, ".partial");
  refuse_existing(file_);
  // An index beside another format's tokens would be read as theirs.
  refuse_existing(index_file_);
  writer_.emplace(partial_file_);
  if (format != TokenFileFormat::llmc) return;
  // The count follows in close().
  const bool small = type_ == TokenType::u16;
  std::string header;
  append<std::int32_t>(header, small ? llmc_uint16_magic : llmc_uint32_magic);
  append<std::int32_t>(header, small ? llmc_uint16_version : llmc_uint32_version);
  header.resize(llmc_header_bytes);
  writer_->write(header.data(), header.size());
}

void TokenFileWriter::add(std::span<const TokenId> document) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (format_ == TokenFileFormat::megatron && std::ssize(document) > most)
    throw Error(ExitCode::bad_data, "a document of 2^31 tokens or more does not fit Megatron-LM's index; split it");
  if (format_ == TokenFileFormat::llmc && tokens_ + std::ssize(document) > most)
    throw Error(ExitCode::bad_data, file_.string() +
                                        ": llm.c's files hold less than 2^31 tokens; tokenize fewer files "
                                        "into each, or use the format megatron");
  buffer_.clear();
  for (const TokenId id : document)
    type_ == TokenType::u16 ? append(buffer_, static_cast<std::uint16_t>(id)) : append(buffer_, id);
  writer_->write(buffer_.data(), buffer_.size());
  if (format_ == TokenFileFormat::megatron) lengths_.push_back(static_cast<std::int32_t>(document.size()));
  tokens_ += std::ssize(document);
  ++documents_;
}

void TokenFileWriter::close() {
  writer_->close();
  if (format_ == TokenFileFormat::llmc) write_llmc_count();
  const auto partial_index = with_ending(index_file_, ".partial");
  if (format_ == TokenFileFormat::megatron) {
    FileWriter writer(partial_index);
    const std::string bytes = index();
    writer.write(bytes.data(), bytes.size());
    writer.close();
    // Before the tokens: an index without them is missing data, tokens without it would be read as raw uint16.
    put_in_place(partial_index, index_file_);
  }
  put_in_place(partial_file_, file_);
  flush_directory(std::filesystem::absolute(file_).parent_path());
}

void TokenFileWriter::write_llmc_count() {
  std::string count;
  append(count, static_cast<std::int32_t>(tokens_));
  std::fstream file(partial_file_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(8);
  file.write(count.data(), static_cast<std::streamsize>(count.size()));
  file.close();
  if (!file) throw Error(ExitCode::cannot_write, partial_file_.string() + ": its header cannot be written");
}

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
