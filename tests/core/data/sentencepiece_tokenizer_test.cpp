// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/sentencepiece_tokenizer.h"

#include <spdlog/fmt/fmt.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/data/growing_text.h"
#include "core/tokenizer/copy_tokenizer.h"
#include "core/tokenizer/open_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

// Types of pieces in sentencepiece_model.proto.
constexpr char normal = 1, unknown = 2, control = 3, byte = 6;

// A field of a protocol buffer that holds bytes; all are shorter than 128.
std::string field(int number, const std::string& content) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(content.size())} + content;
}

std::string piece(const std::string& text, char type) {
  const std::string score("\x15\0\0\0\0", 5);  // field 2, a float
  return field(1, field(1, text) + score + std::string{'\x18', type});
}

// <unk>, <s>, </s>, all bytes, and pieces of text: ids from 0 on.
std::string file_of_small_model(const test::TemporaryDirectory& directory, bool is_bpe = false) {
  std::string model = piece("<unk>", unknown) + piece("<s>", control) + piece("</s>", control);
  for (int value = 0; value < 256; ++value) model += piece(fmt::format("<0x{:02X}>", value), byte);
  for (const char* each : {"\xE2\x96\x81Paris", "\xE2\x96\x81", "a", "b\xE2\x96\x81\xE2\x96\x81"})
    model += piece(each, normal);
  model += field(2, "\x98\x02\x01");          // trainer_spec: byte_fallback, field 35, is true
  if (is_bpe) model += field(2, "\x18\x02");  // model_type, field 3
  return directory.write("small.model", model);
}

std::vector<TokenId> ids_of(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<TokenId> ids;
  tokenizer.make_encoder()->encode(text, ids);
  return ids;
}

// What is shown after each token, and at the end.
std::vector<std::string> shown(const SentencePieceTokenizer& tokenizer, const std::vector<std::int64_t>& ids) {
  GrowingText text([&](std::span<const std::int64_t> some) { return tokenizer.decode_continuation(some); }, {});
  std::vector<std::string> pieces;
  for (const std::int64_t id : ids) {
    text.add(id);
    pieces.push_back(text.take());
  }
  text.end();
  pieces.push_back(text.take());
  return pieces;
}

}  // namespace

TEST_CASE("what SentencePiece continues keeps its first space and shows whole characters") {
  const test::TemporaryDirectory directory;
  const SentencePieceTokenizer tokenizer(file_of_small_model(directory));
  constexpr std::int64_t bytes = 3, paris = 259, space = 260, a = 261, b = 262;
  REQUIRE(tokenizer.vocab_size() == 263);
  CHECK(shown(tokenizer, {paris, a}) == std::vector<std::string>{" Paris", "a", ""});
  CHECK(shown(tokenizer, {bytes + 0xC3, bytes + 0xA9, a, bytes + 0xE2, bytes + 0x82, bytes + 0xAC, b, a}) ==
        std::vector<std::string>{"", "\xC3\xA9", "a", "", "", "\xE2\x82\xAC", "b  ", "a", ""});
  // Marks of documents are no text; ids that are no pieces are.
  CHECK(tokenizer.decode_continuation(std::vector<std::int64_t>{1, space, 2, 0, 263}) == "  \xE2\x81\x87 \xEF\xBF\xBD");
  // What never becomes a character is shown at the end.
  CHECK(shown(tokenizer, {a, bytes + 0xC3}) == std::vector<std::string>{"a", "", "\xC3"});
  // A document's beginning is written as the library does it.
  CHECK(tokenizer.decode(std::vector<std::int64_t>{1, paris, a}) == "Parisa");
}

TEST_CASE("a tokenizer.json made of a SentencePiece model has its ids, and its marks are no text") {
  const test::TemporaryDirectory directory;
  const bool is_bpe = GENERATE(false, true);
  const std::string file = file_of_small_model(directory, is_bpe);
  const TokenizerRecipe given{TokenizerKind::sentencepiece, file};
  const auto out = directory.path() / "out";
  std::filesystem::create_directory(out);
  copy_tokenizer(given, out);
  const auto original = open_tokenizer(given);
  const auto made = open_tokenizer({TokenizerKind::huggingface, (out / "tokenizer.json").string()});
  CHECK(made->marks().begin == std::vector<TokenId>{1});
  CHECK(made->marks().end == std::vector<TokenId>{2});
  CHECK(made->id_of_token("</s>") == 2);
  CHECK(original->id_of_token("</s>") == 2);
  CHECK(original->id_of_token("</t>") == std::nullopt);
  for (const char* text : {"", "a", " a", "  Paris", "a<s>a</s>", "<0x41>", "b  a\n", "Paris Paris", "\xC3\xA9"}) {
    // This model has no piece for "<", without which a unigram language model takes what is written like a mark for
    // one.
    if (!is_bpe && std::string(text).find('<') != std::string::npos) continue;
    INFO(text);
    CHECK(ids_of(*made, text) == ids_of(*original, text));
  }
  // Templates are written with marks.
  std::filesystem::create_directory(directory.path() / "with template");
  directory.write("chat_template.jinja", "{{ bos_token }}");
  copy_tokenizer(given, directory.path() / "with template");
  const auto chats =
      open_tokenizer({TokenizerKind::huggingface, (directory.path() / "with template/tokenizer.json").string()});
  CHECK(ids_of(*chats, "</s>") == std::vector<TokenId>{2});
}

TEST_CASE("a SentencePiece model puts <s> before texts unless it is told not to") {
  const test::TemporaryDirectory directory;
  const std::string file = file_of_small_model(directory);
  CHECK(SentencePieceTokenizer(file).marks().begin == std::vector<TokenId>{1});
  directory.write("tokenizer_config.json", R"({"add_bos_token": false})");
  CHECK(SentencePieceTokenizer(file).marks().begin.empty());
}

}  // namespace llmtrain
