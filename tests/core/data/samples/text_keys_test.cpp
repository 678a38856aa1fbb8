// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/token_files/tokenized_sources.h"
#include "tests/core/data/data_files.h"
#include "tests/core/data/small_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

constexpr std::int64_t vocabulary = 261, length = 2;

Dataset open_with(const std::vector<DataSource>& sources, const TextFormat& format) {
  return {sources, format, length, vocabulary, false, 1, "/data/train"};
}

}  // namespace

TEST_CASE("Each source has its key of the text in rows, in every format and with every tokenizer") {
  const TemporaryDirectory folder;
  const std::string usual = folder.write("usual.jsonl", "{\"text\": \"the theory\"}\n{\"text\": \"lathe\"}\n").string();
  const std::vector<DataSource> sources{
      {folder.write("a.jsonl", "{\"text\": \"no\", \"body\": \"the theory\"}\n{\"body\": \"lathe\"}\n").string(), 1,
       "body"},
      {folder.write("b.csv", "id,q a,text\n1,the theory,x\n2,lathe,y\n").string(), 1, "q a"},
      {folder.write("c.json", "[{\"body\": \"the theory\"}, {\"body\": \"lathe\"}]").string(), 1, "body"}};
  const std::string file = folder.write("tokenizer.json", small_tokenizer().dump()).string();
  for (const TokenizerRecipe& tokenizer : {TokenizerRecipe{}, TokenizerRecipe{TokenizerKind::huggingface, file}}) {
    const TextFormat in_memory{tokenizer};
    const Dataset right = open_with({{usual, 1}}, in_memory);
    const DataCache cache{folder.path() / "cache"};
    TextFormat made = in_memory;
    made.tokenized = tokenized_sources(sources, tokenizer, vocabulary, cache, "/data/train");
    for (const TextFormat& format : {in_memory, made}) {
      for (std::size_t i = 0; i < sources.size(); ++i) {
        INFO(sources[i].path);
        TextFormat of_one = format;
        if (!format.tokenized.empty()) of_one.tokenized = {format.tokenized[i]};
        const Dataset keyed = open_with({sources[i]}, of_one);
        REQUIRE(keyed.tokens() == right.tokens());
        for (std::int64_t k = 0; k < right.samples(); ++k) CHECK(sample(keyed, k, length) == sample(right, k, length));
      }
      CHECK(open_with(sources, format).tokens() == 3 * right.tokens());
    }
  }
}

TEST_CASE("Two keys of the same file are two texts") {
  const TemporaryDirectory folder;
  const std::string path = folder.write("a.jsonl", "{\"text\": \"the\", \"body\": \"lathe the bath\"}\n").string();
  const TokenizerRecipe tokenizer{TokenizerKind::huggingface,
                                  folder.write("tokenizer.json", small_tokenizer().dump()).string()};
  const std::vector<DataSource> sources{{path, 1}, {path, 1, "body"}};
  const DataCache cache{folder.path() / "cache"};
  const auto files = tokenized_sources(sources, tokenizer, vocabulary, cache, "/data/train");
  CHECK(files.at(0) != files.at(1));
  const auto tokens_with = [&](const std::string& key) {
    TextTokens text(tokenizer, vocabulary, OnBadLine::stop, key);
    return text.tokens_of(path);
  };
  const auto of_text = tokens_with("text"), of_body = tokens_with("body");
  CHECK(of_text->tokens.size() < of_body->tokens.size());
}

TEST_CASE("A key that a file does not have is refused with the keys that it has") {
  const TemporaryDirectory folder;
  const auto refuses = [&](const std::string& name, const std::string& content, const std::vector<std::string>& parts) {
    const std::string path = folder.write(name, content).string();
    std::vector<std::string> named = parts;
    named.emplace_back("/data/train/0/path: " + path);
    INFO(name);
    require_error(ExitCode::bad_data, named, [&] { open_with({{path, 1, "body"}}, {}); });
  };
  refuses("a.jsonl", "{\"body\": \"long enough\"}\n{\"text\": \"a\", \"id\": 3}\n",
          {"line 2 has no string \"body\"", "this one has \"id\", \"text\"", "data.train[].text_key"});
  refuses("a.csv", "id,text\n1,long\n", {"has no column \"body\"", "\"id\", \"text\"", "data.train[].text_key"});
  refuses("a.json", "[{\"text\": \"long enough\"}]", {"has no rows with a text at \"body\""});
  refuses("a.txt", "long enough", {"has no rows with a text at \"body\"", "leave it out for files of text"});
  refuses("a.bin", std::string(16, '\0'), {"holds tokens, which have no keys"});
}

}  // namespace llmtrain::test
