// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

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

}  // namespace llmtrain
