// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>

#include "core/data/examples/example_template.h"
#include "core/data/examples/labelled_text_samples.h"
#include "core/tokenizer/open_tokenizer.h"
#include "tests/core/data/data_files.h"
#include "tests/core/data/small_tokenizer.h"
#include "tests/support/temporary_directory.h"

// A namespace of its own, as several tests have a `Read`.
namespace llmtrain::test::labelled_texts {
namespace {

constexpr std::int64_t length = 10, vocabulary = 270, cls = 261, sep = 262;

// The small tokenizer with BERT's template.
TokenizerRecipe bert_tokenizer(const TemporaryDirectory& folder) {
  nlohmann::json tokenizer = small_tokenizer();
  for (const auto& [id, text] : {std::pair{cls, "[CLS]"}, std::pair{sep, "[SEP]"}})
    tokenizer["added_tokens"].push_back({{"id", id}, {"content", text}, {"special", true}, {"normalized", false}});
  const auto mark = [](const char* name, int type) {
    return nlohmann::json{{"SpecialToken", {{"id", name}, {"type_id", type}}}};
  };
  const auto sequence = [](const char* name, int type) {
    return nlohmann::json{{"Sequence", {{"id", name}, {"type_id", type}}}};
  };
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {mark("[CLS]", 0), sequence("A", 0), mark("[SEP]", 0)}},
      {"pair", {mark("[CLS]", 0), sequence("A", 0), mark("[SEP]", 0), sequence("B", 1), mark("[SEP]", 1)}},
      {"special_tokens",
       {{"[CLS]", {{"id", "[CLS]"}, {"ids", {cls}}, {"tokens", {"[CLS]"}}}},
        {"[SEP]", {{"id", "[SEP]"}, {"ids", {sep}}, {"tokens", {"[SEP]"}}}}}}};
  return {TokenizerKind::huggingface, folder.write("tokenizer.json", tokenizer.dump()).string()};
}

struct Read {
  Tokens ids = Tokens(length, -7), types = ids, targets = ids, starts = ids;
  std::int64_t label = -7;
  std::vector<std::uint8_t> counted = std::vector<std::uint8_t>(length, 9);
};

Read read(const SampleSource& samples, std::int64_t number) {
  Read result;
  FieldMemory memory;
  memory.set(BatchField::token_ids, std::span(result.ids));
  memory.set(BatchField::token_types, std::span(result.types));
  if (samples.fields().size() == 3) {
    memory.set(BatchField::label, std::span(&result.label, 1));
  } else {
    memory.set(BatchField::targets, std::span(result.targets));
    memory.set(BatchField::counted_rows, std::span(result.counted));
  }
  memory.document_starts.emplace_back(result.starts);
  samples.read(number, memory);
  return result;
}

Dataset open_with(const TokenizerRecipe& tokenizer, const LabelsRecipe& labels, const std::string& path,
                  OnBadLine on_bad_line = OnBadLine::stop) {
  TextFormat format{tokenizer};
  format.labels = labels;
  format.on_bad_line = on_bad_line;
  return {{DataSource{path, 1}}, format, length, vocabulary, false, 1, "/data/train"};
}

const LabelsRecipe moods{.classes = {"sad", "glad"}};

}  // namespace

TEST_CASE(
    "A text with a label stands between the tokenizer's marks, and its "
    "padding is a document of its own") {
  const TemporaryDirectory folder;
  const auto file = folder.write("a.jsonl",
                                 "{\"text\": \"the\", \"label\": "
                                 "\"glad\"}\n{\"text\": \"ab\", \"label\": 0}\n");
  const Dataset data = open_with(bert_tokenizer(folder), moods, file.string());
  REQUIRE(data.samples() == 2);
  const Read first = read(data, 0), second = read(data, 1);
  CHECK(first.ids == Tokens{cls, 257, sep, 0, 0, 0, 0, 0, 0, 0});
  CHECK(first.types == Tokens(length, 0));
  CHECK(first.label == 1);
  CHECK(second.ids == Tokens{cls, 'a', 'b', sep, 0, 0, 0, 0, 0, 0});
  CHECK(second.label == 0);
  CHECK(second.starts == Tokens{1, 0, 0, 0, 1, 0, 0, 0, 0, 0});
  CHECK(data.weight(0, 3, 4) == 4);
}

TEST_CASE("Two texts have types of their own, and the longer one loses its end") {
  const TemporaryDirectory folder;
  const TokenizerRecipe tokenizer = bert_tokenizer(folder);
  LabelsRecipe labels = moods;
  labels.text = "premise";
  labels.text_pair = "hypothesis";
  labels.label = "gold";
  const auto file = folder.write("a.csv", "premise,hypothesis,gold\nab,c,sad\nabcdefgh,xyz,1\nabc,tuvwxyz,glad\n");
  const Dataset data = open_with(tokenizer, labels, file.string());
  REQUIRE(data.samples() == 3);
  const Read first = read(data, 0), second = read(data, 1), third = read(data, 2);
  CHECK(first.ids == Tokens{cls, 'a', 'b', sep, 'c', sep, 0, 0, 0, 0});
  CHECK(first.types == Tokens{0, 0, 0, 0, 1, 1, 0, 0, 0, 0});
  CHECK(first.label == 0);
  // Seven tokens stay: as BERT's _truncate_seq_pair leaves them.
  CHECK(second.ids == Tokens{cls, 'a', 'b', 'c', 'd', sep, 'x', 'y', 'z', sep});
  CHECK(third.ids == Tokens{cls, 'a', 'b', 'c', sep, 't', 'u', 'v', 'w', sep});
  CHECK(data.left_out().front().truncated == 2);
}

TEST_CASE("The first token of each word has the word's label and counts") {
  const TemporaryDirectory folder;
  LabelsRecipe labels{LabelledPart::words, {"O", "B", "I"}};
  const auto file = folder.write("a.jsonl",
                                 "{\"tokens\": [\"the\", \"bath\", \"\"], \"tags\": [\"B\", 2, \"O\"]}\n"
                                 "{\"tokens\": [\"abcdefgh\", \"the\"], \"tags\": [0, 1]}\n");
  const Dataset data = open_with(bert_tokenizer(folder), labels, file.string());
  const Read first = read(data, 0), second = read(data, 1);
  // "the bath ": of the last word there is a space.
  CHECK(first.ids == Tokens{cls, 257, ' ', 'b', 'a', 256, ' ', sep, 0, 0});
  CHECK(first.counted == std::vector<std::uint8_t>{0, 1, 1, 0, 0, 0, 1, 0, 0, 0});
  CHECK(first.targets == Tokens{0, 1, 2, 0, 0, 0, 0, 0, 0, 0});
  CHECK(data.weight(0, 0, 1) == 3);
  // The second word is beyond the cut.
  CHECK(second.ids.back() == sep);
  CHECK(data.weight(0, 1, 1) == 1);
  CHECK(data.weight(0, 0, 4) == 8);
}

TEST_CASE(
    "Rows with wrong labels or keys are refused with their line and what "
    "is known") {
  const TemporaryDirectory folder;
  const TokenizerRecipe tokenizer = bert_tokenizer(folder);
  const auto refused = [&](const std::string& line, const std::vector<std::string>& parts,
                           const LabelsRecipe& labels = moods) {
    const auto file = folder.write("a.jsonl", "{\"text\": \"a\", \"label\": 1, \"tokens\": [], \"tags\": []}\n" + line);
    require_error(ExitCode::bad_data, parts, [&] { open_with(tokenizer, labels, file.string()); });
    CHECK_THROWS_WITH(open_with(tokenizer, labels, folder.write("b.jsonl", line).string(), OnBadLine::skip),
                      Catch::Contains("holds no text with a label: "));
  };
  refused("{\"text\": \"a\", \"label\": \"angry\"}\n", {"line 2", "angry", "\"sad\", \"glad\"", "0 to 1"});
  refused("{\"text\": \"a\", \"label\": 2}\n", {"line 2", "the label 2"});
  refused("{\"text\": \"a\", \"label\": -1}\n", {"the label -1"});
  refused("{\"text\": \"a\", \"label\": 0.5}\n", {"the label 0.5"});
  refused("{\"body\": \"a\", \"label\": 1}\n", {"has no string \"text\"", "\"body\", \"label\""});
  refused("{\"text\": \"a\"}\n", {"has no label \"label\""});
  refused("[1]\n", {"is no object"});
  refused("{\"text\n", {"is not valid JSON"});
  const LabelsRecipe words{LabelledPart::words, {"O", "B"}};
  refused("{\"tokens\": [\"a\"], \"tags\": [0, 1]}\n", {"1 words in \"tokens\" and 2 labels in \"tags\""}, words);
  refused("{\"tokens\": [1], \"tags\": [0]}\n", {"has a word in \"tokens\" that is no string"}, words);
  refused("{\"tokens\": \"a b\", \"tags\": [0]}\n", {"has no list \"tokens\""}, words);
}

TEST_CASE(
    "What a tokenizer puts around texts is its own template, or the "
    "marks of documents") {
  const TemporaryDirectory folder;
  using Kind = ExampleTemplate::Piece::Kind;
  const auto shape = [](const std::vector<ExampleTemplate::Piece>& pieces) {
    Tokens ids;
    for (const auto& piece : pieces) {
      ids.push_back(piece.kind == Kind::mark ? piece.id : piece.kind == Kind::text ? -1 : -2);
      ids.push_back(piece.type);
    }
    return ids;
  };
  const auto of = [&](const nlohmann::json& processor) {
    nlohmann::json tokenizer = small_tokenizer();
    tokenizer["post_processor"] = processor;
    const auto file = folder.write("t.json", tokenizer.dump()).string();
    // The template alone is read: not every processor can be opened.
    tokenizer["post_processor"] = nullptr;
    const auto plain = folder.write("p.json", tokenizer.dump()).string();
    return example_template({TokenizerKind::huggingface, file}, *open_tokenizer({TokenizerKind::huggingface, plain}));
  };
  const nlohmann::json bert{{"type", "BertProcessing"}, {"sep", {"[SEP]", 9}}, {"cls", {"[CLS]", 8}}};
  CHECK(shape(of(bert).pair) == Tokens{8, 0, -1, 0, 9, 0, -2, 1, 9, 1});
  CHECK(shape(of(bert).single) == Tokens{8, 0, -1, 0, 9, 0});
  nlohmann::json roberta = bert;
  roberta["type"] = "RobertaProcessing";
  CHECK(shape(of(roberta).pair) == Tokens{8, 0, -1, 0, 9, 0, 9, 0, -2, 0, 9, 0});
  CHECK(shape(of({{"type", "ByteLevel"}}).pair) == Tokens{-1, 0, 260, 0, -2, 1, 260, 1});
  CHECK(shape(of({{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, bert}}}).single) ==
        Tokens{8, 0, -1, 0, 9, 0});
  const TokenizerRecipe bytes;
  CHECK(shape(example_template(bytes, *open_tokenizer(bytes)).pair) == Tokens{-1, 0, -2, 1});
}

}  // namespace llmtrain::test::labelled_texts
