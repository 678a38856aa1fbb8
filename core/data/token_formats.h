// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>

#include "core/base/file.h"
#include "core/base/long_work.h"

namespace llmtrain {

// How a file stores one token id; integers are little-endian.
enum class TokenType { u8, i8, i16, i32, i64, u16, u32 };

// Calls `function(std::span<const Integer>)` with `bytes` seen as ids of `type`. The bytes start at a multiple of the
// id's size; a remainder shorter than one id is left out.
template <class Function>
auto visit_tokens(TokenType type, std::span<const std::byte> bytes, Function&& function) {
  const auto as = [&]<class Integer>(Integer) {
    return function(std::span(reinterpret_cast<const Integer*>(bytes.data()), bytes.size() / sizeof(Integer)));
  };
  switch (type) {
    case TokenType::u8:
      return as(std::uint8_t{});
    case TokenType::i8:
      return as(std::int8_t{});
    case TokenType::i16:
      return as(std::int16_t{});
    case TokenType::i32:
      return as(std::int32_t{});
    case TokenType::i64:
      return as(std::int64_t{});
    case TokenType::u16:
      return as(std::uint16_t{});
    case TokenType::u32:
      return as(std::uint32_t{});
  }
  throw std::logic_error("not a token type");
}

inline std::int64_t size_of(TokenType type) {
  return visit_tokens(type, {}, []<class Integer>(std::span<Integer>) { return std::int64_t{sizeof(Integer)}; });
}

// Content of Megatron-LM's index (.idx) of the token file beside it (megatron/core/datasets/indexed_dataset.py):
// "MMIDIDX" and two NUL bytes, u64 version 1, u8 type code, u64 sequences S, u64 document marks D, i32 lengths[S], i64
// byte offsets[S], i64 document marks[D], and for multimodal data i8 modes[S].
struct MegatronIndex {
  TokenType type;
  std::int64_t tokens;
  std::int64_t documents;
};

inline constexpr std::string_view index_magic{"MMIDIDX\0\0", 9};

// llm.c's header (dev/data/data_common.py): 256 int32, which begin with a magic, a version and the count of tokens.
// GPT-2's uint16 and Llama 3's uint32 differ in both.
inline constexpr std::size_t llmc_header_bytes = 1024;
inline constexpr std::int32_t llmc_uint16_magic = 20240520, llmc_uint16_version = 1;
inline constexpr std::int32_t llmc_uint32_magic = 20240801, llmc_uint32_version = 7;

// "uint16" and so on.
std::string_view name_of(TokenType type);

// Reads and checks an index: its header, its size, and that its sequences follow one another without gaps, so that the
// token file is their concatenation. Throws Error(bad_data) that names the index.
MegatronIndex read_megatron_index(const std::filesystem::path& file);

// Where the documents of an index begin. Reads of it what each question needs.
class MegatronDocuments {
 public:
  // read_megatron_index() must have checked the file. It stays mapped.
  explicit MegatronDocuments(const std::filesystem::path& file);

  std::int64_t count() const { return documents_ - 1; }
  // Sets starts[i] to 1 for each document that begins at token `first` + i of the token file, whatever its length.
  void mark(std::int64_t first, std::span<std::int64_t> starts) const;

 private:
  std::int64_t first_token(std::int64_t document) const;

  MappedFile mapping_;
  std::int64_t sequences_ = 0, documents_ = 0, token_bytes_ = 0, tokens_ = 0;
};

// Whether a file begins with the magic of an index.
bool is_megatron_index(std::span<const std::byte> bytes);

struct InvalidToken {
  std::int64_t position;
  std::int64_t id;
};

// The first id that is negative or not below `vocab_size`; reads all of `bytes` unless the type makes it impossible.
std::optional<InvalidToken> find_invalid_token(TokenType type, std::span<const std::byte> bytes,
                                               std::int64_t vocab_size, const ReportShare& report = report_nothing);

}  // namespace llmtrain
