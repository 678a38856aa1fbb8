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

TEST_CASE("What a tokenizer.json may not hold is refused at its place") {
  const std::pair<Json, std::vector<std::string>> cases[] = {
      {changed("/model/type", "Unigram"), {"/model", "\"Unigram\"", ".model file"}},
      {changed("/model/dropout", 0.1), {"/model/dropout", "null"}},
      {changed("/model/byte_fallback", true), {"/model/byte_fallback"}},
      {changed("/model/end_of_word_suffix", "</w>"), {"/model/end_of_word_suffix"}},
      {changed("/model/merges/0", "th"), {"/model/merges/0", "LEFT RIGHT"}},
      {changed("/model/merges/0", "t q!"), {"/model/merges/0", "\"q!\" is not in"}},
      {changed("/model/vocab/the", "x"), {"/model/vocab/the", "whole number"}},
      {changed("/model/vocab/the", 2000000000), {"/model/vocab", "2000000000"}},
      {changed("/model/unk_token", "<unk>"), {"/model/unk_token"}},
      {changed("/normalizer", {{"type", "NFKC"}}), {"/normalizer", "\"NFKC\"", "NFC and none"}},
      {changed("/pre_tokenizer", nullptr), {"pre_tokenizer", ".model file"}},
      {changed("/pre_tokenizer", {{"type", "Metaspace"}}), {"/pre_tokenizer", "\"Metaspace\"", "ByteLevel"}},
      {changed("/post_processor", {{"type", "BertProcessing"}}), {"/post_processor", "\"BertProcessing\""}},
      {changed("/truncation", {{"max_length", 5}}), {"/truncation", "null"}},
      {changed("/added_tokens/0/single_word", true), {"/added_tokens/0/single_word"}},
      {changed("/added_tokens/0/content", "th"), {"/added_tokens/0", "260", "256"}},
      {Json::array(), {"not an object"}},
  };
  for (const auto& [json, parts] : cases) {
    const Json& tokenizer = json;
    require_error(ExitCode::bad_data, parts, [&] { Opened{tokenizer}; });
  }
}

}  // namespace llmtrain::test
