// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace llmtrain {

// The bytes of a token of byte-level BPE. Its file writes each byte as one visible character: bytes that are printable
// in Latin-1 as themselves, the other 68 as U+0100 and the following (bytes_to_unicode() of GPT-2's encoder.py).
// Nothing where a character stands for no byte, as in a special token with a space.
std::optional<std::string> bytes_of_token(std::string_view token);
// The other way round.
std::string token_of_bytes(std::string_view bytes);

// All bytes in the order of the characters that they are written as, which is that of their ids in a new vocabulary.
std::array<unsigned char, 256> bytes_in_order_of_characters();

}  // namespace llmtrain
