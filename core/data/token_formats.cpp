// SPDX-License-Identifier: Apache-2.0
#include "core/data/token_formats.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

#include "core/base/error.h"
#include "core/base/file.h"

namespace llmtrain {
namespace {

constexpr std::size_t block = 16384;           // fits the first-level cache; searching a bad block again costs little
constexpr std::size_t reported = block * 256;  // ids between two reports, some milliseconds

template <class Integer>
bool is_valid(Integer id, std::int64_t vocab_size) {
  return id >= 0 && static_cast<std::int64_t>(id) < vocab_size;
}

template <class Integer>
std::optional<InvalidToken> find_in(std::span<const Integer> ids, std::int64_t vocab_size, const ReportShare& report) {
  // No value of the type can be invalid: the file need not be read.
  if (std::numeric_limits<Integer>::min() == 0 && std::numeric_limits<Integer>::max() < vocab_size) return {};
  for (std::size_t start = 0; start < ids.size(); start += block) {
    if (start % reported == 0) report(static_cast<double>(start) / static_cast<double>(ids.size()));
    const auto part = ids.subspan(start, std::min(block, ids.size() - start));
    // 0 is valid, so starting from it hides nothing.
    Integer low = 0;
    Integer high = 0;
    for (const Integer id : part) {  // without branches, so that the compiler vectorises it
      low = std::min(low, id);
      high = std::max(high, id);
    }
    if (is_valid(low, vocab_size) && is_valid(high, vocab_size)) continue;
    const auto bad = std::find_if(part.begin(), part.end(), [=](Integer id) { return !is_valid(id, vocab_size); });
    return InvalidToken{static_cast<std::int64_t>(start) + (bad - part.begin()), static_cast<std::int64_t>(*bad)};
  }
  return {};
}

// 9 of magic, 8 of version, 1 of type code, 8 each of sequences and document marks.
constexpr std::size_t index_header_bytes = 34;
// Where the header's packed fields are, in bytes from its start.
constexpr std::size_t version_offset = 9, type_code_offset = 17, sequences_offset = 18, documents_offset = 26;

template <class Integer>
Integer load(std::span<const std::byte> bytes, std::size_t offset) {
  Integer value;  // copied, because the fields are not aligned
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// By Megatron-LM's DType; 0 is unused, 6 and 7 are floating-point types, which are not tokens.
constexpr std::array<std::optional<TokenType>, 9> types_of_codes{
    {{}, TokenType::u8, TokenType::i8, TokenType::i16, TokenType::i32, TokenType::i64, {}, {}, TokenType::u16}};

class IndexReader {
 public:
  explicit IndexReader(const std::filesystem::path& file) : file_(file), mapping_(file), bytes_(mapping_.bytes()) {}

  MegatronIndex read() {
    const TokenType type = read_header();
    check_size();
    const std::int64_t tokens = check_sequences(size_of(type));
    check_documents();
    return {type, tokens, std::max<std::int64_t>(0, static_cast<std::int64_t>(documents_) - 1)};
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ExitCode::bad_data, file_.string() + ": " + what + "; write the .bin and .idx pair again");
  }

  TokenType read_header() {
    if (bytes_.size() < index_header_bytes || !is_megatron_index(bytes_)) {
      fail("is not a Megatron-LM index, which begins with \"MMIDIDX\" and has a header of 34 bytes");
    }
    const auto version = load<std::uint64_t>(bytes_, version_offset);
    if (version != 1) fail(fmt::format("has version {}; version 1 is supported", version));
    const auto code = load<std::uint8_t>(bytes_, type_code_offset);
    const auto type = code < types_of_codes.size() ? types_of_codes[code] : std::nullopt;
    if (!type) fail(fmt::format("has type code {}; token ids are 1 to 5 (integers) or 8 (uint16)", code));
    sequences_ = load<std::uint64_t>(bytes_, sequences_offset);
    documents_ = load<std::uint64_t>(bytes_, documents_offset);
    return *type;
  }

  void check_size() const {
    const std::uint64_t body = bytes_.size() - index_header_bytes;
    // Each count is bounded first: the product of a damaged count could overflow.
    const bool bounded = sequences_ <= body / 12 && documents_ <= body / 8;
    const std::uint64_t expected = bounded ? sequences_ * 12 + documents_ * 8 : 0;
    // 12 bytes per sequence (length and offset), 8 per mark; multimodal data has one more byte per sequence.
    if (bounded && (body == expected || body == expected + sequences_)) return;
    fail(fmt::format("holds {} bytes, which does not fit its {} sequences and {} document marks", bytes_.size(),
                     sequences_, documents_));
  }

  std::int64_t check_sequences(std::int64_t token_bytes) const {
    const std::size_t offsets = index_header_bytes + sequences_ * 4;
    std::int64_t tokens = 0;
    for (std::size_t i = 0; i < sequences_; ++i) {
      const auto length = load<std::int32_t>(bytes_, index_header_bytes + i * 4);
      const auto offset = load<std::int64_t>(bytes_, offsets + i * 8);
      if (length < 0) fail(fmt::format("sequence {} has length {}", i, length));
      // Samples are cut from the concatenation of all sequences, which exists in the file only without gaps.
      if (offset != tokens * token_bytes) {
        fail(fmt::format("sequence {} begins at byte {}, the ones before it end at {}", i, offset,
                         tokens * token_bytes));
      }
      tokens += length;
    }
    return tokens;
  }

  // Marks are indices of sequences; they ascend and end with the number of sequences.
  void check_documents() const {
    const std::size_t marks = index_header_bytes + sequences_ * 12;
    std::int64_t last = 0;
    for (std::size_t i = 0; i < documents_; ++i) {
      const auto mark = load<std::int64_t>(bytes_, marks + i * 8);
      if (mark < last) fail(fmt::format("document mark {} goes back to sequence {}", i, mark));
      last = mark;
    }
    if (last == static_cast<std::int64_t>(sequences_)) return;
    fail(fmt::format("its documents end at sequence {} of {}", last, sequences_));
  }

  const std::filesystem::path& file_;
  MappedFile mapping_;
  std::span<const std::byte> bytes_;
  std::uint64_t sequences_ = 0;
  std::uint64_t documents_ = 0;
};

}  // namespace

std::optional<InvalidToken> find_invalid_token(TokenType type, std::span<const std::byte> bytes,
                                               std::int64_t vocab_size, const ReportShare& report) {
  return visit_tokens(type, bytes, [&](auto ids) { return find_in(ids, vocab_size, report); });
}

std::string_view name_of(TokenType type) {
  switch (type) {
    case TokenType::u8:
      return "uint8";
    case TokenType::i8:
      return "int8";
    case TokenType::i16:
      return "int16";
    case TokenType::i32:
      return "int32";
    case TokenType::i64:
      return "int64";
    case TokenType::u16:
      return "uint16";
    case TokenType::u32:
      return "uint32";
  }
  throw std::logic_error("not a token type");
}

MegatronDocuments::MegatronDocuments(const std::filesystem::path& file) : mapping_(file) {
  const auto bytes = mapping_.bytes();
  token_bytes_ = size_of(types_of_codes[load<std::uint8_t>(bytes, type_code_offset)].value());
  sequences_ = load<std::int64_t>(bytes, sequences_offset);
  documents_ = load<std::int64_t>(bytes, documents_offset);
  for (std::int64_t i = 0; i < sequences_; ++i)
    tokens_ += load<std::int32_t>(bytes, index_header_bytes + static_cast<std::size_t>(i) * 4);
}

std::int64_t MegatronDocuments::first_token(std::int64_t document) const {
  const std::size_t offsets = index_header_bytes + static_cast<std::size_t>(sequences_) * 4;
  const std::size_t marks = offsets + static_cast<std::size_t>(sequences_) * 8;
  const auto sequence = load<std::int64_t>(mapping_.bytes(), marks + static_cast<std::size_t>(document) * 8);
  if (sequence == sequences_) return tokens_;
  return load<std::int64_t>(mapping_.bytes(), offsets + static_cast<std::size_t>(sequence) * 8) / token_bytes_;
}

void MegatronDocuments::mark(std::int64_t first, std::span<std::int64_t> starts) const {
  const std::int64_t end = first + std::ssize(starts);
  // The first document that does not begin before `first`, of an order that is known without reading all.
  std::int64_t next = 0;
  for (std::int64_t after = documents_; next < after;) {
    const std::int64_t middle = next + (after - next) / 2;
    if (first_token(middle) < first)
      next = middle + 1;
    else
      after = middle;
  }
  for (; next < documents_; ++next) {
    const std::int64_t token = first_token(next);
    if (token >= end) return;
    starts[static_cast<std::size_t>(token - first)] = 1;
  }
}

bool is_megatron_index(std::span<const std::byte> bytes) {
  return bytes.size() >= index_magic.size() && std::memcmp(bytes.data(), index_magic.data(), index_magic.size()) == 0;
}

MegatronIndex read_megatron_index(const std::filesystem::path& file) { return IndexReader(file).read(); }

}  // namespace llmtrain
