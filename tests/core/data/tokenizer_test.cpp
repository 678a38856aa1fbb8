// SPDX-License-Identifier: Apache-2.0
#include "core/data/tokenizer.h"

#include <catch2/catch.hpp>

#include "tests/core/data/data_files.h"

namespace llmtrain {

using test::require_error;

TEST_CASE("The byte tokenizer gives one id per byte") {
  CHECK(encode({}, "Aé\n") == test::Tokens{65, 0xC3, 0xA9, 10});
  CHECK(encode({}, "").empty());
}

TEST_CASE("The byte tokenizer restores every byte, valid UTF-8 or not") {
  std::string text;
  for (int byte = 0; byte < 256; ++byte) text.push_back(static_cast<char>(byte));
  CHECK(decode({}, test::range(0, 256)) == text);
  CHECK(decode({}, encode({}, text)) == text);
}

TEST_CASE("The byte tokenizer writes ids that are not bytes as U+FFFD") {
  CHECK(decode({}, test::Tokens{65, 256, 50256, -1, 66}) == "A\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" + std::string("B"));
}

TEST_CASE("Other tokenizers are refused by name, with the supported ones") {
  const TokenizerRecipe sentencepiece{TokenizerKind::sentencepiece, "/m/t.model"};
  const TokenizerRecipe huggingface{TokenizerKind::huggingface, "/m/tokenizer.json"};
  require_error(ExitCode::bad_recipe, {"/data/tokenizer", "sentencepiece", "/m/t.model", ".bin", "\"bytes\""},
                [&] { encode(sentencepiece, "a"); });
  require_error(ExitCode::bad_recipe, {"/data/tokenizer", "huggingface", "/m/tokenizer.json", ".bin", "\"bytes\""},
                [&] { decode(huggingface, test::Tokens{1}); });
}

}  // namespace llmtrain
