// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/data/token_type.h"

namespace llmtrain {

struct InvalidToken {
  std::int64_t position;
  std::int64_t id;
};

// The first id that is negative or not below `vocab_size`; reads all of `bytes` unless the type makes it impossible.
std::optional<InvalidToken> find_invalid_token(TokenType type, std::span<const std::byte> bytes,
                                               std::int64_t vocab_size);

}  // namespace llmtrain
