// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/huggingface_tokenizer.h"

#include <catch2/catch.hpp>

#include "core/tokenizer/open_tokenizer.h"
#include "tests/core/data/data_files.h"
#include "tests/core/data/small_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

using Json = nlohmann::json;

struct Opened {
  explicit Opened(const Json& json)
      : tokenizer(open_tokenizer({TokenizerKind::huggingface, folder.write("tokenizer.json", json.dump()).string()})) {}

  Tokens encode(std::string_view text) const { return encode_prompt(*tokenizer, text); }

  TemporaryDirectory folder;
  std::shared_ptr<const Tokenizer> tokenizer;
};

Json changed(const char* pointer, const Json& value) {
  Json json = small_tokenizer();
  json[Json::json_pointer(pointer)] = value;
  return json;
}

}  // namespace

TEST_CASE("Words are merged, and bytes that are no UTF-8 come back") {
  const Opened opened(small_tokenizer());
  CHECK(opened.encode("the the\n\n") == Tokens{257, 258, 259});
  // Merges stay within words: " th" is one, but " " and "th" have no merge.
  CHECK(opened.encode(" th,e") == Tokens{32, 256, 44, 101});
  std::string bytes = "the \xE4\xB8 the";
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(byte));
  CHECK(opened.tokenizer->decode(opened.encode(bytes)) == bytes);
}

TEST_CASE("Ids that a tokenizer does not have become U+FFFD") {
  CHECK(Opened(small_tokenizer()).tokenizer->decode(Tokens{257, 261, -1, 260}) ==
        "the\xEF\xBF\xBD\xEF\xBF\xBD<|endoftext|>");
}

TEST_CASE("Added tokens are found as written, the longest first, and take the space that they ask for") {
  Json json = small_tokenizer();
  json["added_tokens"].push_back({{"id", 261}, {"content", "<|end"}, {"rstrip", true}});
  json["added_tokens"].push_back({{"id", 262}, {"content", "?!"}, {"lstrip", true}});
  const Opened opened(json);
  CHECK(opened.encode("a<|endoftext|>b<|end \u3000c") == Tokens{97, 260, 98, 261, 99});
  CHECK(opened.encode("a \t?!b<|en") == Tokens{97, 262, 98, 60, 124, 101, 110});
}

TEST_CASE("Merges may be lists of two; whole words come first with ignore_merges") {
  Json json = changed("/model/merges", Json::array({Json::array({"t", "h"})}));
  CHECK(Opened(json).encode("the") == Tokens{256, 101});
  json["model"]["ignore_merges"] = true;
  CHECK(Opened(json).encode("the") == Tokens{257});
}

TEST_CASE("The template's mark comes before a document, and the end of text after it") {
  Json json =
      changed("/post_processor", {{"type", "TemplateProcessing"},
                                  {"single", {{{"SpecialToken", {{"id", "<s>"}}}}, {{"Sequence", {{"id", "A"}}}}}},
                                  {"special_tokens", {{"<s>", {{"ids", {261}}}}}}});
  json["added_tokens"].push_back({{"id", 261}, {"content", "<s>"}});
  const Opened opened(json);
  CHECK(opened.tokenizer->marks().begin == std::vector<TokenId>{261});
  CHECK(opened.tokenizer->marks().end == std::vector<TokenId>{260});
  CHECK(opened.encode("th") == Tokens{261, 256});
}

TEST_CASE("tokenizer_config.json beside the file names the end of text") {
  const TemporaryDirectory folder;
  Json json = small_tokenizer();
  json["added_tokens"].push_back({{"id", 261}, {"content", "<|stop|>"}});
  const TokenizerRecipe recipe{TokenizerKind::huggingface, folder.write("tokenizer.json", json.dump()).string()};
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<|stop|>"}})");
  CHECK(open_tokenizer(recipe)->marks().end == std::vector<TokenId>{261});
  folder.write("tokenizer_config.json", R"({"eos_token": "<|gone|>"})");
  require_error(ExitCode::bad_data, {"tokenizer.json", "/added_tokens", "<|gone|>"}, [&] { open_tokenizer(recipe); });
}

TEST_CASE("Bytes without a token are an error, or the unknown token") {
  Json json = small_tokenizer();
  json["model"]["vocab"].erase("q");
  require_error(ExitCode::bad_data, {"tokenizer.json", "0x71", "unk_token"}, [&] { Opened(json).encode("q"); });
  json["model"]["unk_token"] = "!";
  CHECK(Opened(json).encode("aqqb") == Tokens{97, 33, 33, 98});
  json["model"]["fuse_unk"] = true;
  CHECK(Opened(json).encode("aqqb") == Tokens{97, 33, 98});
}

TEST_CASE("A text that is cut short or filled is so only where somebody asks for it") {
  Json json = changed("/truncation", {{"max_length", 1}});
  json["padding"] = {{"pad_id", 260}, {"strategy", {{"Fixed", 5}}}};
  CHECK(Opened(json).encode("the the") == Tokens{257, 258});
}

TEST_CASE("A token that is a single word is not found within one") {
  Json json = small_tokenizer();
  json["added_tokens"].push_back({{"id", 261}, {"content", "qu"}, {"single_word", true}});
  const Opened opened(json);
  CHECK(opened.encode("qu-qu") == Tokens{261, 45, 261});
  CHECK(opened.encode("oqu \u00e4qu") == Tokens{111, 113, 117, 32, 195, 164, 113, 117});
}

TEST_CASE("What a tokenizer.json may not hold is refused at its place") {
  const std::pair<Json, std::vector<std::string>> cases[] = {
      {changed("/model/type", "Trigram"), {"/model", "\"Trigram\"", "WordPiece"}},
      {changed("/model/type", "Unigram"), {"/model/vocab", "not a list"}},
      {changed("/model/type", "WordPiece"), {"/model", "unk_token"}},
      {changed("/model/dropout", 0.1), {"/model/dropout", "null"}},
      {changed("/model/merges/0", "th"), {"/model/merges/0", "LEFT RIGHT"}},
      {changed("/model/merges/0", "t q!"), {"/model/merges/0", "\"q!\" is not in"}},
      {changed("/model/continuing_subword_prefix", "##"), {"/model/merges/0", "does not begin with \"##\""}},
      {changed("/model/vocab/the", "x"), {"/model/vocab/the", "whole number"}},
      {changed("/model/vocab/the", 2000000000), {"/model/vocab", "2000000000"}},
      {changed("/model/unk_token", "<unk>"), {"/model/unk_token"}},
      {changed("/normalizer", {{"type", "NFX"}}), {"/normalizer", "\"NFX\"", "NFKC"}},
      {changed("/normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "X"}}}}}),
       {"/normalizer/normalizers/1", "\"X\""}},
      {changed("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAEAAA=="}}),
       {"/normalizer/precompiled_charsmap", "256 bytes"}},
      {changed("/pre_tokenizer", {{"type", "Metaspaces"}}), {"/pre_tokenizer", "\"Metaspaces\"", "ByteLevel"}},
      {changed("/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "last"}}),
       {"/pre_tokenizer/prepend_scheme", "\"last\"", "never"}},
      {changed("/pre_tokenizer", {{"type", "Punctuation"}, {"behavior", "Gone"}}),
       {"/pre_tokenizer/behavior", "\"Gone\"", "Isolated"}},
      {changed("/decoder", {{"type", "CTC"}}), {"/decoder", "\"CTC\"", "ByteFallback"}},
      {changed("/post_processor", {{"type", "BartProcessing"}}), {"/post_processor", "\"BartProcessing\""}},
      {changed("/post_processor", {{"type", "TemplateProcessing"}, {"single", Json::array()}}),
       {"/post_processor/single", "\"A\" not once"}},
      {changed("/added_tokens/0/content", "th"), {"/added_tokens/0", "260", "256"}},
      {Json::array(), {"not an object"}},
  };
  for (const auto& [json, parts] : cases) {
    const Json& tokenizer = json;
    require_error(ExitCode::bad_data, parts, [&] { Opened{tokenizer}; });
  }
}

}  // namespace llmtrain::test
