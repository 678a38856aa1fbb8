// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/file.h"
#include "core/base/long_work.h"
#include "core/data/text_tokens.h"
#include "core/data/token_formats.h"

namespace llmtrain {

// How many more files may be mapped: Linux limits a process to 65530 mappings. Further files are read into memory.
struct MappingBudget {
  std::int64_t left = 16384;
};

// Whether it must be known where the documents of a file begin.
enum class DocumentStarts { unknown, known };

// Whether a text's documents are the bytes of its file, which are then mapped where bytes are tokens: it has neither
// rows nor a `key` of them, and is not compressed.
bool is_read_as_bytes(const std::filesystem::path& file, const std::string& key);

// One file of tokens, opened and checked; the bytes stay mapped. By its name and its first bytes it is
// - `.bin`: llm.c's by its magic (20240520: uint16, version 1; 20240801: uint32, version 7; a header of 1024 bytes with
//   the count of tokens), else Megatron-LM's if an `.idx` is beside it, else nanoGPT's raw uint16;
// - rows of JSON Lines or a table (core/data/records/record_reader.h), each a document;
// - anything else: text, one document; what is none is refused.
// Text may be compressed (`.gz`, `.zst`). With the byte tokenizer it is the documents' bytes one after another; any
// other tokenizer's tokens, with its marks around each document, are made in memory.
class TokenFile {
 public:
  // Throws Error(bad_data) that begins with the file's name when it is malformed or holds an id that is negative or not
  // below `vocab_size` (all ids are checked), Error(missing_input) when it does not exist, and what `text` throws.
  TokenFile(const std::filesystem::path& file, TextTokens& text, std::int64_t vocab_size, MappingBudget& budget,
            DocumentStarts starts = DocumentStarts::unknown, const ReportShare& report = report_nothing);

  std::int64_t tokens() const { return tokens_; }
  // As the file's index counts them; none without an index.
  std::optional<std::int64_t> documents() const { return documents_; }
  // "Megatron-LM, uint16" and so on.
  std::string format() const;

  // Fills `tokens` with the tokens from `first` on, all of which are in the file.
  void read(std::int64_t first, std::span<std::int64_t> tokens) const;
  // With DocumentStarts::known what the file's index says of them; null: it has none.
  const MegatronDocuments* document_starts() const { return document_starts_ ? &*document_starts_ : nullptr; }
  // Lines of text that were skipped.
  const BadLines& bad_lines() const { return bad_lines_; }
  // Whether the id is among its first `most` tokens.
  bool contains(std::int64_t id, std::int64_t most) const;

 private:
  // The first id that is negative or not below `vocab_size`.
  std::optional<InvalidToken> find_invalid(std::int64_t vocab_size, const ReportShare& report) const;
  void open_text(const std::filesystem::path& file, TextTokens& text, const ReportShare& report);
  void open_binary(const std::filesystem::path& file);
  void open_llmc(const std::filesystem::path& file, TokenType type);
  void open_megatron(const std::filesystem::path& file, const std::filesystem::path& index);
  void open_raw(const std::filesystem::path& file);
  std::span<const std::byte> content() const;
  std::span<const std::byte> token_bytes() const { return content().subspan(header_bytes_); }

  std::optional<MappedFile> mapping_;
  // Instead of a mapping:
  std::string memory_;
  std::shared_ptr<const TokenizedText> tokens_of_text_;
  BadLines bad_lines_;
  TokenType type_ = TokenType::u8;
  std::size_t header_bytes_ = 0;
  std::int64_t tokens_ = 0;
  std::optional<std::int64_t> documents_;
  std::optional<MegatronDocuments> document_starts_;
  std::string_view layout_ = "text";
};

// The files of one source, in the order of their paths, as one sequence of tokens without separators.
class TokenSource {
 public:
  // `tokenized` is a token file that has been made of the files that `path` names, and is read instead of them; empty:
  // none. Throws what find_files() and TokenFile throw.
  TokenSource(const std::string& path, TextTokens& text, std::int64_t vocab_size, MappingBudget& budget,
              const std::filesystem::path& tokenized = {}, DocumentStarts starts = DocumentStarts::unknown,
              const ReportShare& report = report_nothing);

  std::int64_t tokens() const { return starts_.back(); }
  // That `path` names.
  std::int64_t files() const { return static_cast<std::int64_t>(paths_.size()); }
  const std::vector<std::filesystem::path>& paths() const { return paths_; }
  // Lines that were skipped of text: here, or where the token file was made of it.
  BadLines bad_lines() const;

  // Fills `tokens` with the tokens from `first` on, across files; all of them are in the source.
  void read(std::int64_t first, std::span<std::int64_t> tokens) const;
  // "<file>: token <number in it>", of one of the source's tokens, for messages.
  std::string place_of(std::int64_t token) const;
  // Sets starts[i] to 1 where a document begins with tokens[i], which read() has read from `first` on, and else to 0:
  // where the index of the token's file says so, and in a file without one after the token `end`. The first token
  // counts as a beginning or not. For DocumentStarts::known.
  void mark_documents(std::int64_t first, std::int64_t end, std::span<const std::int64_t> tokens,
                      std::span<std::int64_t> starts) const;

  // What divides the source's tokens into documents.
  struct Dividers {
    bool are_indexes = false;  // of all files: no token is looked at
    bool divide = false;       // whether there is a beginning within it
    std::int64_t searched = 0;
  };
  // Searches files without an index as far as the source's first `most` tokens go. For DocumentStarts::known.
  Dividers dividers(std::int64_t end, std::int64_t most) const;

 private:
  std::size_t file_of(std::int64_t token) const;

  std::vector<std::filesystem::path> paths_;
  std::vector<TokenFile> files_;
  BadLines bad_lines_{OnBadLine::skip};  // where the source's token file was made
  std::vector<std::int64_t> starts_{0};  // where each file begins, and the end
};

}  // namespace llmtrain
