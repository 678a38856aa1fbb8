// SPDX-License-Identifier: Apache-2.0
#include "core/token_files/tokenized_sources.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "tests/core/data/data_files.h"
#include "tests/core/data/small_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t ids_of_small_tokenizer = 261;

// A folder of texts with empty documents, a tokenizer, and a cache that counts its uses.
struct TextSetting {
  TextSetting() {
    folder.write("texts/a.jsonl", "{\"text\": \"the theory\"}\n{\"text\": \"\"}\n\n{\"text\": \"\\n\\nthat\"}");
    folder.write("texts/b.txt", "lathe the bath");
    folder.write("texts/empty.txt", "");
    tokenizer = {TokenizerKind::huggingface, folder.write("tokenizer.json", small_tokenizer().dump()).string()};
    sources = {{(folder.path() / "texts").string(), 2}, {(folder.path() / "texts" / "b.txt").string(), 1}};
  }

  std::vector<fs::path> make() const {
    return tokenized_sources(sources, tokenizer, ids_of_small_tokenizer, cache, "/data/train");
  }

  Dataset open(const std::vector<fs::path>& tokenized) const {
    return {sources, {tokenizer, {}, tokenized}, 3, ids_of_small_tokenizer, true, 5, "/data/train"};
  }

  TemporaryDirectory folder;
  DataCache cache{folder.path() / "cache"};
  TokenizerRecipe tokenizer;
  std::vector<DataSource> sources;
};

}  // namespace

TEST_CASE("samples are the same from text and from the token files made of it", "[cache]") {
  const TextSetting setting;
  const std::vector<fs::path> files = setting.make();
  REQUIRE(files.size() == 2);
  const Dataset text = setting.open({}), tokens = setting.open(files);
  CHECK(tokens.samples() == text.samples());
  CHECK(tokens.tokens() == text.tokens());
  CHECK(tokens.files() == 4);
  for (std::int64_t position = 0; position < 50; ++position)
    REQUIRE(sample(tokens, position, 3) == sample(text, position, 3));
}

TEST_CASE("bytes of rows and packed texts become token files, and plain texts are mapped as they lie", "[cache]") {
  TextSetting setting;
  setting.tokenizer = {};
  setting.folder.write("table.csv", "text,n\nabcdefg,1\n\"h\n,i\",2\n");
  setting.folder.write("plain.txt", "neither rows nor packed");
  setting.folder.write("keyed.jsonl", "{\"body\": \"under another key\"}\n");
  const auto path = [&](const char* name) { return (setting.folder.path() / name).string(); };
  setting.sources = {{path("texts"), 2}, {path("plain.txt"), 1}, {path("table.csv"), 1}, {path("keyed.jsonl"), 1}};
  setting.sources[3].text_key = "body";
  const std::vector<fs::path> files = setting.make();
  REQUIRE(files.size() == 4);
  CHECK(files[1].empty());
  CHECK(fs::file_size(files[0]) == 2 * std::string("the theory\n\nthatlathe the bath").size());
  CHECK(fs::file_size(files[2]) == 2 * std::string("abcdefgh\n,i").size());
  CHECK(fs::file_size(files[3]) == 2 * std::string("under another key").size());
  const Dataset text = setting.open({}), tokens = setting.open(files);
  CHECK(tokens.samples() == text.samples());
  for (std::int64_t position = 0; position < 50; ++position)
    REQUIRE(sample(tokens, position, 3) == sample(text, position, 3));
}

TEST_CASE("token files are made once, and again for other texts or another tokenizer", "[cache]") {
  TextSetting setting;
  const std::vector<fs::path> files = setting.make();
  const fs::path cache = setting.cache.folder;
  const auto made = fs::last_write_time(files[0]);
  CHECK(setting.make() == files);
  CHECK(fs::last_write_time(files[0]) == made);
  CHECK(names_in(cache).size() == 4);

  // One of a process that was killed, of other texts, is removed with those that no longer fit.
  setting.folder.write("cache/tokens-0123456789abcdef.bin.partial", "abc");
  setting.folder.write("cache/vocabulary-rarity-1", "of another kind");
  const fs::path text = setting.folder.path() / "texts" / "b.txt";
  const auto time = fs::last_write_time(text);
  setting.folder.write("texts/b.txt", "another text of the author");
  fs::last_write_time(text, time + std::chrono::seconds(1));
  const std::vector<fs::path> later = setting.make();
  CHECK(later[0] != files[0]);
  CHECK(later[1] != files[1]);
  std::set<std::string> expected{"vocabulary-rarity-1"};
  for (const fs::path& file : later)
    for (const char* ending : {".bin", ".idx"}) expected.insert(file.stem().string() + ending);
  remove_other_token_files(setting.cache, later);
  CHECK(names_in(cache) == expected);
  CHECK(setting.open(later).tokens() == setting.open({}).tokens());

  auto tokenizer = small_tokenizer();
  tokenizer["model"]["merges"].erase(2);
  setting.folder.write("tokenizer.json", tokenizer.dump());
  CHECK(setting.make()[0] != later[0]);
}

TEST_CASE("token files are made of text alone, and of what needs a tokenizer", "[cache]") {
  TextSetting setting;
  const fs::path with_tokens = setting.folder.write("mixed/a.bin", little_endian<std::uint16_t>(range(0, 20)));
  setting.sources = {{with_tokens.string(), 1}, {(setting.folder.path() / "texts").string(), 1}};
  const std::vector<fs::path> files = setting.make();
  REQUIRE(files.size() == 2);
  CHECK(files[0].empty());
  CHECK(sample(setting.open(files), 0, 3) == sample(setting.open({}), 0, 3));
  CHECK(tokenized_sources(setting.sources, setting.tokenizer, ids_of_small_tokenizer, {}, "/data/train").empty());
}

TEST_CASE("sources of the same text have one token file", "[cache]") {
  TextSetting setting;
  setting.sources.push_back(setting.sources[0]);
  const std::vector<fs::path> files = setting.make();
  CHECK(files[2] == files[0]);
  CHECK(names_in(setting.cache.folder).size() == 4);
}

TEST_CASE("a start that is asked to stop leaves its work to the next one", "[cache]") {
  TextSetting setting;
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "the theory that\n\n";
  setting.folder.write("texts/long.txt", text);
  const std::vector<fs::path> expected = setting.make();
  const std::string tokens = read_file(expected[0]);
  for (const fs::path& file : expected) fs::remove(file), fs::remove(fs::path(file).replace_extension(".idx"));

  int asked = 0;
  setting.cache.once = [&](const auto& make) { return make([&] { return ++asked == 3; }); };
  require_error(ExitCode::stopped, {"while tokenising", "run the same command again"}, [&] { setting.make(); });
  CHECK(fs::exists(expected[0].string() + ".partial"));
  setting.cache.once = DataCache().once;
  CHECK(setting.make() == expected);
  CHECK(read_file(expected[0]) == tokens);
  CHECK(names_in(setting.cache.folder).size() == 4);
}

TEST_CASE("bad lines are counted in memory and for token files alike, at the next start, too", "[cache]") {
  TextSetting setting;
  setting.folder.write("texts/a.jsonl",
                       "{\"text\": \"the theory\"}\n[]\n{\"text\": 3}\n\n{\"text\": \"that\"}\nthe\n{}\n");
  const auto make = [&](OnBadLine policy) {
    return tokenized_sources(setting.sources, setting.tokenizer, ids_of_small_tokenizer, setting.cache, "/data/train",
                             policy);
  };
  require_error(ExitCode::bad_data, {"a.jsonl: line 2 has no string", "data.on_bad_line"},
                [&] { make(OnBadLine::stop); });
  const std::vector<fs::path> files = make(OnBadLine::skip);
  CHECK(make(OnBadLine::skip) == files);
  TextFormat format{setting.tokenizer, {}, {}, {}, OnBadLine::skip};
  const Dataset text(setting.sources, format, 3, ids_of_small_tokenizer, true, 5, "/data/train");
  format.tokenized = files;
  const Dataset tokens(setting.sources, format, 3, ids_of_small_tokenizer, true, 5, "/data/train");
  CHECK(tokens.tokens() == text.tokens());
  const std::string first = (setting.folder.path() / "texts" / "a.jsonl: line ").string();
  const std::vector<BadLines::Reason> reasons{{"has no string \"text\"", 3, first + "2"},
                                              {"is not valid JSON", 1, first + "6"}};
  for (const Dataset* data : {&text, &tokens}) {
    CHECK(data->left_out()[0].bad_lines.reasons() == reasons);
    CHECK(data->left_out()[1].bad_lines.count() == 0);
  }
  remove_other_token_files(setting.cache, files);
  CHECK(names_in(setting.cache.folder).size() == 5);
  // What was made of fewer lines does not serve where none may be left out.
  require_error(ExitCode::bad_data, {"a.jsonl: line 2"}, [&] { make(OnBadLine::stop); });
}

TEST_CASE("what cannot be tokenised is said with the source's place, and leaves no file", "[cache]") {
  TextSetting setting;
  setting.folder.write("texts/c.jsonl", "{\"text\": \"the\"}\n{\"text\": 3}");
  require_error(ExitCode::bad_data, {"/data/train/0/path: ", "c.jsonl: line 2"}, [&] { setting.make(); });
  CHECK(names_in(setting.cache.folder).empty());
  setting.sources[0].path = (setting.folder.path() / "nowhere.txt").string();
  require_error(ExitCode::missing_input, {"/data/train/0/path: ", "nowhere.txt"}, [&] { setting.make(); });
}

}  // namespace llmtrain::test
