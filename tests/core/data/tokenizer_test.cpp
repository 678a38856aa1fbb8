// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/tokenizer/byte_tokenizer.h"
#include "tests/core/data/data_files.h"

namespace llmtrain {

TEST_CASE("The byte tokenizer gives one id per byte") {
  CHECK(encode_prompt(ByteTokenizer(), "Aé\n") == test::Tokens{65, 0xC3, 0xA9, 10});
  CHECK(encode_prompt(ByteTokenizer(), "").empty());
}

TEST_CASE("The byte tokenizer restores every byte, valid UTF-8 or not") {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  CHECK(ByteTokenizer().decode(test::range(0, 256)) == text);
  CHECK(encode_prompt(ByteTokenizer(), text) == test::range(0, 256));
}

TEST_CASE("The byte tokenizer writes ids that are not bytes as U+FFFD") {
  CHECK(ByteTokenizer().decode(test::Tokens{65, 256, 50256, -1, 66}) ==
        "A\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" + std::string("B"));
}

}  // namespace llmtrain
