// SPDX-License-Identifier: Apache-2.0
#include "core/data/text_tokens.h"

#include <catch2/catch.hpp>

#include "core/data/samples/dataset.h"
#include "core/data/token_source.h"
#include "tests/core/data/data_files.h"
#include "tests/core/data/small_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

Tokens tokens_of(const std::filesystem::path& path, const TokenizerRecipe& tokenizer) {
  TextTokens text(tokenizer, 261);
  MappingBudget budget;
  const TokenSource source(path.string(), text, 261, budget);
  Tokens tokens(static_cast<std::size_t>(source.tokens()));
  source.read(0, tokens);
  return tokens;
}

// "abcdefghij", packed by zlib 1.2 and zstd 1.5.
const std::string gzip_file{
    "\037\213\010\000\000\000\000\000\002\003\113\114\112\116\111\115\113\317\310\314\002\000\072\160\201\071\012\000"
    "\000\000",
    30};
const std::string zstd_file{"\050\265\057\375\040\012\121\000\000\141\142\143\144\145\146\147\150\151\152", 19};

// RFC 8878: a frame without sizes, whose window descriptor says 2^(10 + exponent) bytes, of one raw block.
std::string zstd_frame(int exponent) {
  return std::string("\x28\xb5\x2f\xfd\x00", 5) + static_cast<char>(exponent << 3) + std::string("\x51\0\0", 3) +
         "abcdefghij";
}

}  // namespace

TEST_CASE("Documents end with the end of text, whether lines or files") {
  const TemporaryDirectory folder;
  const TokenizerRecipe tokenizer{TokenizerKind::huggingface,
                                  folder.write("tokenizer.json", small_tokenizer().dump()).string()};
  const auto lines = folder.write("a.jsonl", "{\"text\": \"the\"}\n\n{\"text\": \"\"}\n{\"text\": \"th\"}");
  CHECK(tokens_of(lines, tokenizer) == Tokens{257, 260, 256, 260});
  CHECK(tokens_of(folder.write("b.txt", "the the\n\n"), tokenizer) == Tokens{257, 258, 259, 260});
  CHECK(tokens_of(folder.write("empty.txt", ""), tokenizer).empty());
}

TEST_CASE("A mask has the tokenizer's end of text, or the recipe's") {
  const TemporaryDirectory folder;
  Recipe recipe;
  recipe.model.vocab_size = 261;
  recipe.data.tokenizer = {TokenizerKind::huggingface,
                           folder.write("tokenizer.json", small_tokenizer().dump()).string()};
  CHECK_FALSE(text_format(recipe).document_end);
  recipe.data.document_mask.emplace();
  CHECK(text_format(recipe).document_end == 260);
  recipe.data.document_mask->end_of_text = 259;
  CHECK(text_format(recipe).document_end == 259);
  // Without the one special token documents have no end.
  auto unmarked = small_tokenizer();
  unmarked.erase("added_tokens");
  recipe.data.tokenizer.file = folder.write("unmarked.json", unmarked.dump()).string();
  CHECK(text_format(recipe).document_end == 259);
  recipe.data.document_mask->end_of_text.reset();
  require_error(ExitCode::bad_data, {"unmarked.json", "0 tokens at a document's end", "data.document_mask.end_of_text"},
                [&] { text_format(recipe); });
}

TEST_CASE("Packed text is unpacked, file by file and in folders") {
  const TemporaryDirectory folder;
  const Tokens letters = range('a', 10);
  CHECK(tokens_of(folder.write("a.txt.gz", gzip_file), {}) == letters);
  CHECK(tokens_of(folder.write("b.txt.zst", zstd_file), {}) == letters);
  // Members and frames may follow one another.
  CHECK(tokens_of(folder.write("a.txt.gz", gzip_file + gzip_file), {}).size() == 20);
  CHECK(tokens_of(folder.write("b.txt.zst", zstd_file + zstd_file), {}).size() == 20);
  CHECK(tokens_of(folder.path(), {}).size() == 40);
}

TEST_CASE("zstd files are unpacked whatever the window that zstd --long made them with") {
  const TemporaryDirectory folder;
  CHECK(tokens_of(folder.write("27.zst", zstd_frame(27 - 10)), {}) == range('a', 10));
  CHECK(tokens_of(folder.write("31.zst", zstd_frame(31 - 10)), {}) == range('a', 10));
  const auto longer = folder.write("32.zst", zstd_frame(32 - 10));
  require_error(ExitCode::bad_data, {"32.zst", "window of more than 2 GiB", "--long=31"},
                [&] { tokens_of(longer, {}); });
}

}  // namespace llmtrain::test
