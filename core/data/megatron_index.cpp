// SPDX-License-Identifier: Apache-2.0
#include "core/data/token_formats.h"

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.h"
#include "core/base/file.h"

namespace llmtrain {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view magic = "MMIDIDX\0\0"sv;
// 9 of magic, 8 of version, 1 of type code, 8 each of sequences and document marks.
constexpr std::size_t header_bytes = 34;

template <class Integer>
Integer load(std::span<const std::byte> bytes, std::size_t offset) {
  Integer value;  // copied, because the fields are not aligned
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// Codes of Megatron-LM's DType; 6 and 7 are floating-point types, which are not tokens.
std::optional<TokenType> type_of_code(std::uint8_t code) {
  switch (code) {
    case 1:
      return TokenType::u8;
    case 2:
      return TokenType::i8;
    case 3:
      return TokenType::i16;
    case 4:
      return TokenType::i32;
    case 5:
      return TokenType::i64;
    case 8:
      return TokenType::u16;
    default:
      return std::nullopt;
  }
}

class IndexReader {
 public:
  explicit IndexReader(const std::filesystem::path& file) : file_(file), mapping_(file), bytes_(mapping_.bytes()) {}

  MegatronIndex read() {
    const TokenType type = read_header();
    check_size();
    const std::int64_t tokens = check_sequences(size_of(type));
    check_documents();
    return {type, static_cast<std::int64_t>(sequences_), tokens};
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ExitCode::bad_data, file_.string() + ": " + what + "; write the .bin and .idx pair again");
  }

  TokenType read_header() {
    if (bytes_.size() < header_bytes || !is_megatron_index(bytes_)) {
      fail("is not a Megatron-LM index, which begins with \"MMIDIDX\" and has a header of 34 bytes");
    }
    // Offsets of packed fields: version 9, type code 17, sequences 18, document marks 26.
    const auto version = load<std::uint64_t>(bytes_, 9);
    if (version != 1) fail("has version " + std::to_string(version) + "; version 1 is supported");
    const auto code = load<std::uint8_t>(bytes_, 17);
    const auto type = type_of_code(code);
    if (!type) fail("has type code " + std::to_string(code) + "; token ids are 1 to 5 (integers) or 8 (uint16)");
    sequences_ = load<std::uint64_t>(bytes_, 18);
    documents_ = load<std::uint64_t>(bytes_, 26);
    return *type;
  }

  void check_size() const {
    const std::uint64_t body = bytes_.size() - header_bytes;
    // Each count is bounded first: the product of a damaged count could overflow.
    const bool bounded = sequences_ <= body / 12 && documents_ <= body / 8;
    const std::uint64_t expected = bounded ? sequences_ * 12 + documents_ * 8 : 0;
    // 12 bytes per sequence (length and offset), 8 per mark; multimodal data has one more byte per sequence.
    if (bounded && (body == expected || body == expected + sequences_)) return;
    fail("holds " + std::to_string(bytes_.size()) + " bytes, which does not fit its " + std::to_string(sequences_) +
         " sequences and " + std::to_string(documents_) + " document marks");
  }

  std::int64_t check_sequences(std::int64_t token_bytes) const {
    const std::size_t offsets = header_bytes + sequences_ * 4;
    std::int64_t tokens = 0;
    for (std::size_t i = 0; i < sequences_; ++i) {
      const auto length = load<std::int32_t>(bytes_, header_bytes + i * 4);
      const auto offset = load<std::int64_t>(bytes_, offsets + i * 8);
      if (length < 0) fail("sequence " + std::to_string(i) + " has length " + std::to_string(length));
      // Samples are cut from the concatenation of all sequences, which exists in the file only without gaps.
      if (offset != tokens * token_bytes) {
        fail("sequence " + std::to_string(i) + " begins at byte " + std::to_string(offset) +
             ", the ones before it end at " + std::to_string(tokens * token_bytes));
      }
      tokens += length;
    }
    return tokens;
  }

  // Marks are indices of sequences; they ascend and end with the number of sequences.
  void check_documents() const {
    const std::size_t marks = header_bytes + sequences_ * 12;
    std::int64_t last = 0;
    for (std::size_t i = 0; i < documents_; ++i) {
      const auto mark = load<std::int64_t>(bytes_, marks + i * 8);
      if (mark < last) fail("document mark " + std::to_string(i) + " goes back to sequence " + std::to_string(mark));
      last = mark;
    }
    if (last == static_cast<std::int64_t>(sequences_)) return;
    fail("its documents end at sequence " + std::to_string(last) + " of " + std::to_string(sequences_));
  }

  const std::filesystem::path& file_;
  MappedFile mapping_;
  std::span<const std::byte> bytes_;
  std::uint64_t sequences_ = 0;
  std::uint64_t documents_ = 0;
};

}  // namespace

bool is_megatron_index(std::span<const std::byte> bytes) {
  return bytes.size() >= magic.size() && std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

MegatronIndex read_megatron_index(const std::filesystem::path& file) { return IndexReader(file).read(); }

}  // namespace llmtrain
