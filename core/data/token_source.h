// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/data/token_formats.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// How many more files may be mapped: Linux limits a process to 65530 mappings. Further files are read into memory.
struct MappingBudget {
  std::int64_t left = 16384;
};

// One file of tokens, opened and checked; the bytes stay mapped. By its name and its first bytes it is
// - `.bin`: llm.c's by its magic (20240520: uint16, version 1; 20240801: uint32, version 7; a header of 1024 bytes with
//   the count of tokens), else Megatron-LM's if an `.idx` is beside it, else nanoGPT's raw uint16;
// - `.jsonl`: one object per line, {"text": …}; the texts one after another, decoded into memory;
// - anything else: text.
class TokenFile {
 public:
  // Throws Error(bad_data) that begins with the file's name when it is malformed or holds an id that is negative or not
  // below `vocab_size` (all ids are checked), Error(bad_recipe) when it is text and the tokenizer is not bytes,
  // Error(missing_input) when it does not exist.
  TokenFile(const std::filesystem::path& file, const TokenizerRecipe& tokenizer, std::int64_t vocab_size,
            MappingBudget& budget);

  std::int64_t tokens() const { return tokens_; }

  // Fills `tokens` with the tokens from `first` on, all of which are in the file.
  void read(std::int64_t first, std::span<std::int64_t> tokens) const;

 private:
  void open_binary(const std::filesystem::path& file);
  void open_llmc(const std::filesystem::path& file, TokenType type);
  void open_megatron(const std::filesystem::path& file, const std::filesystem::path& index);
  void open_raw(const std::filesystem::path& file);
  std::span<const std::byte> content() const;
  std::span<const std::byte> token_bytes() const { return content().subspan(header_bytes_); }

  std::optional<MappedFile> mapping_;
  std::string memory_;  // instead of a mapping
  TokenType type_ = TokenType::u8;
  std::size_t header_bytes_ = 0;
  std::int64_t tokens_ = 0;
};

// The files of one source, in the order of their paths, as one sequence of tokens without separators.
class TokenSource {
 public:
  // Throws what find_files() and TokenFile throw.
  TokenSource(const std::string& path, const TokenizerRecipe& tokenizer, std::int64_t vocab_size,
              MappingBudget& budget);

  std::int64_t tokens() const { return starts_.back(); }
  std::int64_t files() const { return static_cast<std::int64_t>(files_.size()); }

  // Fills `tokens` with the tokens from `first` on, across files; all of them are in the source.
  void read(std::int64_t first, std::span<std::int64_t> tokens) const;

 private:
  std::vector<TokenFile> files_;
  std::vector<std::int64_t> starts_{0};  // where each file begins, and the end
};

}  // namespace llmtrain
