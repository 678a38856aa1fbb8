// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/sentencepiece/sentencepiece_model.h"

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace llmtrain {
namespace {

// The wire format of protocol buffers: each field is a number, and a varint, four or eight bytes, or a length and so
// many bytes.
class WireReader {
 public:
  explicit WireReader(std::string_view content) : rest_(content) {}

  // Whether there is another field, which is then the current one.
  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    number_ = key >> 3U;
    bytes_ = {};
    value_ = 0;
    switch (key & 7U) {
      case 0:
        value_ = varint();
        break;
      case 1:
        take(8);
        break;
      case 2:
        bytes_ = take(varint());
        break;
      case 5:
        value_ = little_endian(take(4));
        break;
      default:
        throw std::invalid_argument("not a protocol buffer");
    }
    return true;
  }

  std::uint64_t number() const { return number_; }
  std::uint64_t value() const { return value_; }  // of a varint, or the bits of a float
  std::string_view bytes() const { return bytes_; }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) throw std::invalid_argument("a protocol buffer that is cut off");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  static std::uint64_t little_endian(std::string_view bytes) {
    std::uint64_t value = 0;
    for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[i]);
    return value;
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1).front());
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    throw std::invalid_argument("not a protocol buffer");
  }

  std::string_view rest_;
  std::uint64_t number_ = 0, value_ = 0;
  std::string_view bytes_;
};

using Piece = SentencePieceModel::Piece;

Piece piece_of(std::string_view message) {
  Piece piece;
  for (WireReader fields(message); fields.next();) {
    if (fields.number() == 1)
      piece.text = fields.bytes();
    else if (fields.number() == 2)
      piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(fields.value()));
    else if (fields.number() == 3)
      piece.type = static_cast<SentencePieceModel::PieceType>(fields.value());
  }
  return piece;
}

void read_trainer(std::string_view message, SentencePieceModel& model) {
  for (WireReader fields(message); fields.next();) {
    if (fields.number() == 3)
      model.algorithm = static_cast<SentencePieceModel::Algorithm>(fields.value());
    else if (fields.number() == 24)
      model.puts_space_behind = fields.value() != 0;
    else if (fields.number() == 35)
      model.falls_back_to_bytes = fields.value() != 0;
  }
}

void read_normalizer(std::string_view message, SentencePieceModel& model) {
  for (WireReader fields(message); fields.next();) {
    if (fields.number() == 2)
      model.characters = fields.bytes();
    else if (fields.number() == 3)
      model.puts_space_first = fields.value() != 0;
    else if (fields.number() == 4)
      model.removes_spaces = fields.value() != 0;
    else if (fields.number() == 5)
      model.marks_spaces = fields.value() != 0;
  }
}

}  // namespace

SentencePieceModel read_sentencepiece_model(std::string_view content) {
  SentencePieceModel model;
  for (WireReader fields(content); fields.next();) {
    if (fields.number() == 1)
      model.pieces.push_back(piece_of(fields.bytes()));
    else if (fields.number() == 2)
      read_trainer(fields.bytes(), model);
    else if (fields.number() == 3)
      read_normalizer(fields.bytes(), model);
  }
  return model;
}

std::size_t unknown_id(const SentencePieceModel& model) {
  const auto found = std::ranges::find(model.pieces, SentencePieceModel::PieceType::unknown, &Piece::type);
  return static_cast<std::size_t>(found - model.pieces.begin());
}

}  // namespace llmtrain
