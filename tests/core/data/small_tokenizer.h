// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

namespace llmtrain::test {

// A tokenizer.json with GPT-2's pattern: ids 0 to 255 are the bytes of the same value, 256 "th", 257 "the", 258 " the",
// 259 "\n\n"; and added tokens: 260 <|endoftext|>.
nlohmann::json small_tokenizer();

}  // namespace llmtrain::test
