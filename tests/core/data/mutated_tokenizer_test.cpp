// SPDX-License-Identifier: Apache-2.0
// Files of tokenizers that nobody meant are read, or refused with the file's name and a reason; nothing crashes or
// hangs.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/tokenizer/encode_pair.h"
#include "core/tokenizer/huggingface_tokenizer.h"
#include "tests/core/data/small_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

using Json = nlohmann::json;

Json with_everything(Json model) {
  const auto type = [](const char* name) { return Json{{"type", name}}; };
  Json replace = {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}};
  Json split = {
      {"type", "Split"}, {"pattern", {{"String", "-"}}}, {"behavior", "MergedWithPrevious"}, {"invert", false}};
  Json charsmap = {{"type", "Precompiled"}, {"precompiled_charsmap", "CAAAAAAAAAAABAAAAGEAYgA="}};
  return {{"added_tokens", {{{"id", 7}, {"content", "<s>"}, {"single_word", true}, {"lstrip", true}}}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {type("BertNormalizer"),
              type("NFKD"),
              replace,
              charsmap,
              type("Nmt"),
              {{"type", "Prepend"}, {"prepend", "\u2581"}},
              {{"type", "Strip"}, {"strip_left", true}}}}}},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             {split,
              type("Digits"),
              type("UnicodeScripts"),
              {{"type", "FixedLength"}, {"length", 9}},
              {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}}}}}},
          {"post_processor", {{"type", "BertProcessing"}, {"sep", {"<s>", 7}}, {"cls", {"<s>", 7}}}},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {type("ByteFallback"),
              {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}},
              type("Fuse"),
              {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 1}}}}}},
          {"model", std::move(model)}};
}

std::vector<Json> tokenizers() {
  const Json words = {{"[UNK]", 0}, {"\u2581", 1}, {"a", 2}, {"##b", 3}, {"b", 4}, {"ab", 5}, {"<0x0A>", 6}};
  const Json scores = Json::parse(R"([["[UNK]", 0], ["\u2581", -1.5], ["a", -2], ["ab", -2.5], ["<0x0A>", 0]])");
  return {small_tokenizer(),
          with_everything({{"type", "BPE"},
                           {"vocab", words},
                           {"merges", {"a b"}},
                           {"unk_token", "[UNK]"},
                           {"byte_fallback", true},
                           {"fuse_unk", true}}),
          with_everything({{"type", "WordPiece"},
                           {"vocab", words},
                           {"unk_token", "[UNK]"},
                           {"continuing_subword_prefix", "##"},
                           {"max_input_chars_per_word", 4}}),
          with_everything({{"type", "Unigram"}, {"unk_id", 0}, {"byte_fallback", true}, {"vocab", scores}})};
}

class FileMutations {
 public:
  explicit FileMutations(unsigned seed) : random_(seed) {}
  std::size_t below(std::size_t end) { return random_() % end; }

  // Changes one value at a random depth: another type, another value of the document, gone or doubled.
  void mutate(Json& value, const Json& document) {
    if (value.is_structured() && !value.empty() && below(8) != 0) {
      auto chosen = value.begin();
      std::advance(chosen, static_cast<std::ptrdiff_t>(below(value.size())));
      if (below(10) == 0) {
        value.erase(chosen);
        return;
      }
      return mutate(*chosen, document);
    }
    const std::vector<Json> others = {
        nullptr,  true, -1,      3,         2147483647,    1e300,          "",
        "\u2581", "[",  "(?=a)", "A\u0301", Json::array(), Json::object(), document.flatten().begin().value()};
    value = others[below(others.size())];
  }

 private:
  std::mt19937 random_;
};

void use(const HuggingFaceTokenizer& tokenizer) {
  const auto encoder = tokenizer.make_encoder();
  const TypedIds made = encode_pair(tokenizer, *encoder, "ab\u2581 ab--b  12\n\xFF\xE4 <s> \u00c9\u5929", "a<s>");
  std::vector<std::int64_t> ids(made.ids.begin(), made.ids.end());
  for (std::int64_t id = -1; id < 9; ++id) ids.push_back(id);
  tokenizer.decode(ids);
  tokenizer.decode_continuation(ids);
}

}  // namespace

TEST_CASE("Files of tokenizers that nobody meant are used or refused") {
  const TemporaryDirectory folder;
  const std::vector<Json> all = tokenizers();
  for (const Json& json : all) use(HuggingFaceTokenizer(folder.write("tokenizer.json", json.dump())));
  FileMutations mutations(3);
  int used = 0, refused = 0;
  for (int round = 0; round < 4000; ++round) {
    const Json& document = all[mutations.below(all.size())];
    Json json = document;
    for (std::size_t i = 1 + mutations.below(2); i > 0; --i) mutations.mutate(json, document);
    const auto file = folder.write("tokenizer.json", json.dump(-1, ' ', false, Json::error_handler_t::replace));
    try {
      use(HuggingFaceTokenizer(file));
      ++used;
    } catch (const Error& error) {
      ++refused;
      INFO(error.what());
      CHECK(error.code() == ExitCode::bad_data);
    }
  }
  CHECK(used > 300);
  CHECK(refused > 500);
}

}  // namespace llmtrain::test
