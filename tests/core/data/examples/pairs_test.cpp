// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "core/data/examples/pair_samples.h"
#include "core/data/samples/dataset.h"
#include "core/data/samples/shown_sample.h"
#include "core/tokenizer/open_tokenizer.h"
#include "tests/core/data/data_files.h"
#include "tests/core/data/small_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test::pairs {
namespace {

constexpr std::int64_t length = 8, target_length = 5, vocabulary = 262, end = 260, padding = 261;

// The small tokenizer, which ends texts, beside what names its padding.
TokenizerRecipe tokenizer_in(const TemporaryDirectory& folder, bool has_padding = true) {
  nlohmann::json tokenizer = small_tokenizer();
  tokenizer["added_tokens"].push_back({{"id", padding}, {"content", "<pad>"}, {"special", true}});
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, {{"SpecialToken", {{"id", "E"}, {"type_id", 0}}}}}},
      {"pair", {{{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "B"}, {"type_id", 1}}}}}},
      {"special_tokens", {{"E", {{"id", "E"}, {"ids", {end}}, {"tokens", {"<|endoftext|>"}}}}}}};
  nlohmann::json config = {{"eos_token", "<|endoftext|>"}};
  if (has_padding) config["pad_token"] = "<pad>";
  folder.write("tokenizer_config.json", config.dump());
  return {TokenizerKind::huggingface, folder.write("tokenizer.json", tokenizer.dump()).string()};
}

Dataset open_with(const TokenizerRecipe& tokenizer, const PairsRecipe& pairs, const std::string& path,
                  OnBadLine on_bad_line = OnBadLine::stop, std::int64_t source_length = length) {
  TextFormat format{tokenizer};
  format.pairs = pairs;
  format.on_bad_line = on_bad_line;
  return {{DataSource{path, 1}}, format, source_length, vocabulary, false, 1, "/data/train"};
}

struct Read {
  Tokens source = Tokens(length, -7), ids = Tokens(target_length, -7), targets = ids;
  Tokens source_starts = source, target_starts = ids;
  std::vector<std::uint8_t> counted = std::vector<std::uint8_t>(target_length, 9);
};

Read read(const SampleSource& samples, std::int64_t number) {
  Read result;
  FieldMemory memory;
  memory.set(BatchField::source_ids, std::span(result.source));
  memory.set(BatchField::token_ids, std::span(result.ids));
  memory.set(BatchField::targets, std::span(result.targets));
  memory.set(BatchField::counted_rows, std::span(result.counted));
  memory.document_starts = {result.source_starts, result.target_starts};
  samples.read(number, memory);
  return result;
}

const PairsRecipe short_targets{.target_length = target_length};

}  // namespace

TEST_CASE("A decoder reads a target shifted by its start, and is to tell the target") {
  const TemporaryDirectory folder;
  const auto file = folder.write("a.jsonl", "{\"source\": \"the\", \"target\": \"xy\"}\n");
  const Dataset data = open_with(tokenizer_in(folder), short_targets, file.string());
  const Read pair = read(data, 0);
  CHECK(pair.source == Tokens{257, end, padding, padding, padding, padding, padding, padding});
  CHECK(pair.targets == Tokens{'x', 'y', end, padding, padding});
  CHECK(pair.ids == Tokens{padding, 'x', 'y', padding, padding});
  CHECK(pair.counted == std::vector<std::uint8_t>{1, 1, 1, 0, 0});
  CHECK(data.weight(0, 0, 1) == 3);
  PairsRecipe started = short_targets;
  started.decoder_start = 7;
  CHECK(read(open_with(tokenizer_in(folder), started, file.string()), 0).ids == Tokens{7, 'x', 'y', padding, padding});
}

// What attends from one sequence to the other pairs their documents in order.
TEST_CASE("Both sequences of a pair end with padding, however long their texts are") {
  const TemporaryDirectory folder;
  const auto file =
      folder.write("a.csv", "source,target\nabcdefghijklmnop,x\na,vwxyz\nabcdefghijklmnop,uvwxyz\nabcdef,xyz\n");
  const Dataset data = open_with(tokenizer_in(folder), short_targets, file.string());
  REQUIRE(data.samples() == 4);
  for (std::int64_t number = 0; number < data.samples(); ++number) {
    const Read pair = read(data, number);
    CAPTURE(number);
    CHECK(std::ranges::count(pair.source_starts, 1) == 2);
    CHECK(std::ranges::count(pair.target_starts, 1) == 2);
    CHECK(pair.source.back() == padding);
    CHECK(pair.counted.back() == 0);
  }
  // The mark at the end stays.
  CHECK(read(data, 0).source == Tokens{'a', 'b', 'c', 'd', 'e', 'f', end, padding});
  CHECK(read(data, 1).targets == Tokens{'v', 'w', 'x', end, padding});
  CHECK(data.left_out().front().cut_pairs == 3);
  CHECK(sentences_of(data.left_out().front(), length) ==
        std::vector<std::string>{
            "3 documents of two texts were truncated to batch.sequence_length (8) and data.pairs.target_length"});
}

TEST_CASE("Keys of pairs are names or JSON pointers, and a prefix comes before each source") {
  const TemporaryDirectory folder;
  const TokenizerRecipe tokenizer = tokenizer_in(folder);
  PairsRecipe pairs{.source = "/translation/en", .target = "/translation/a~1b", .prefix = "q: ", .target_length = 5};
  const auto file = folder.write("a.jsonl", "{\"translation\": {\"en\": \"a\", \"a/b\": \"z\"}}\n");
  const Read nested = read(open_with(tokenizer, pairs, file.string()), 0);
  CHECK(nested.source == Tokens{'q', ':', ' ', 'a', end, padding, padding, padding});
  CHECK(nested.targets == Tokens{'z', end, padding, padding, padding});
  pairs.source = "/en";  // is a key here
  pairs.target = "t";
  const auto flat = folder.write("b.jsonl", "{\"/en\": \"b\", \"t\": \"z\", \"en\": \"c\"}\n");
  CHECK(read(open_with(tokenizer, pairs, flat.string()), 0).source[3] == 'b');
}

TEST_CASE("A row without one of the texts of a pair is refused or left out") {
  const TemporaryDirectory folder;
  const TokenizerRecipe tokenizer = tokenizer_in(folder);
  const auto file = folder.write("a.jsonl",
                                 "{\"source\": \"a\", \"target\": \"\"}\n{\"source\": \"\", \"target\": \"a\"}\n"
                                 "{\"source\": \"a\"}\n{\"source\": \"a\", \"target\": 3}\n"
                                 "{\"source\": \"b\", \"target\": \"c\"}\n");
  PairsRecipe pairs = short_targets;
  pairs.prefix = "q: ";
  CHECK_THROWS_WITH(open_with(tokenizer, pairs, file.string()),
                    Catch::Contains("has no string \"target\"") &&
                        Catch::Contains("data.pairs names the keys of rows") && Catch::Contains("\"source\""));
  const Dataset data = open_with(tokenizer, pairs, file.string(), OnBadLine::skip);
  CHECK(data.samples() == 1);
  CHECK(read(data, 0).source[3] == 'b');
  CHECK(data.left_out().front().without_words == 2);
  CHECK(data.left_out().front().bad_lines.count() == 2);
}

TEST_CASE("Pairs are refused where nothing ends a target or begins it, and where no room is left") {
  const TemporaryDirectory folder;
  const auto file = folder.write("a.jsonl", "{\"source\": \"a\", \"target\": \"b\"}\n").string();
  const auto refused = [&](const TokenizerRecipe& tokenizer, const PairsRecipe& pairs, const std::string& message,
                           std::int64_t source_length = length) {
    CHECK_THROWS_WITH(open_with(tokenizer, pairs, file, OnBadLine::stop, source_length), Catch::Contains(message));
  };
  refused(tokenizer_in(folder, false), short_targets, "data.pairs.decoder_start must be the id");
  PairsRecipe started = short_targets;
  started.decoder_start = 0;
  CHECK(read(open_with(tokenizer_in(folder, false), started, file), 0).ids == Tokens{0, 'b', 0, 0, 0});
  refused(tokenizer_in(folder), PairsRecipe{.target_length = 2}, "no room for it in data.pairs.target_length (2)");
  refused(tokenizer_in(folder), short_targets, "no room for it in batch.sequence_length (2)", 2);
  nlohmann::json unmarked = small_tokenizer();
  const auto sequence = [](const char* name, int type) {
    return nlohmann::json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  unmarked["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", nlohmann::json::array({sequence("A", 0)})},
                                {"pair", nlohmann::json::array({sequence("A", 0), sequence("B", 1)})},
                                {"special_tokens", nlohmann::json::object()}};
  const auto other = folder.write("unmarked.json", unmarked.dump()).string();
  refused({TokenizerKind::huggingface, other}, started, "puts no mark at the end of a text");
}

TEST_CASE("A pair is shown as its source and its target, of which all tokens count") {
  const TemporaryDirectory folder;
  const TokenizerRecipe tokenizer = tokenizer_in(folder);
  const auto file = folder.write("a.jsonl", "{\"source\": \"the\", \"target\": \"xy\"}\n");
  const ShownSample shown =
      shown_sample(open_with(tokenizer, short_targets, file.string()), 0, *open_tokenizer(tokenizer));
  REQUIRE(shown.documents.size() == 2);
  CHECK(shown.documents[0].name == "source");
  CHECK(shown.documents[0].counted == 0);
  CHECK(shown.documents[0].parts.front().text.starts_with("the"));
  CHECK(shown.documents[1].name == "target");
  CHECK(shown.documents[1].counted == 3);
  CHECK(shown.documents[1].parts.front().text.starts_with("xy"));
  CHECK(shown.padding == length + target_length - 5);
}

}  // namespace llmtrain::test::pairs
