// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/labelled_documents.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "core/base/error.h"
#include "core/data/samples/packing.h"
#include "tests/core/data/data_files.h"
#include "tests/core/data/small_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

using Documents = std::shared_ptr<const LabelledDocuments>;

struct Read {
  Tokens tokens, targets;
  std::vector<DocumentRows> documents;
};

Read read(const Documents& documents, std::int64_t sample, std::size_t length) {
  Read result{Tokens(length, -7), Tokens(length, -7), {}};
  result.documents = documents->read(sample, {result.tokens, result.targets});
  return result;
}

// With bytes: "P" and "C" repeated.
std::string line(int prompt, int completion) {
  return R"({"prompt": ")" + std::string(static_cast<std::size_t>(prompt), 'P') + R"(", "completion": ")" +
         std::string(static_cast<std::size_t>(completion), 'C') + "\"}\n";
}

Documents open_documents(const TemporaryDirectory& folder, const std::string& text, bool packing, std::int64_t length) {
  return LabelledDocuments::open(folder.write("a.jsonl", text).string(), {}, {.packing = packing}, length, {256});
}

constexpr std::int64_t P = 'P', C = 'C', no = not_counted;

}  // namespace

TEST_CASE("A sample's targets are the next tokens of completions") {
  const TemporaryDirectory folder;
  const Documents documents = open_documents(folder, line(2, 2) + line(1, 3), false, 6);
  REQUIRE(documents->samples() == 2);
  const Read first = read(documents, 0, 6), second = read(documents, 1, 6);
  CHECK(first.tokens == Tokens{P, P, C, 0, 0, 0});
  CHECK(first.targets == Tokens{no, C, C, no, no, no});
  CHECK(second.tokens == Tokens{P, C, C, 0, 0, 0});
  CHECK(second.targets == Tokens{C, C, C, no, no, no});
  CHECK(first.documents.empty());
  CHECK(std::vector{documents->counted(0), documents->counted(1)} == std::vector<std::int64_t>{2, 3});
}

TEST_CASE("Packed documents follow one another and predict nothing of each other") {
  const TemporaryDirectory folder;
  const Documents documents = open_documents(folder, line(2, 2) + line(1, 2) + line(1, 4), true, 6);
  REQUIRE(documents->samples() == 2);
  const Read first = read(documents, 0, 6), second = read(documents, 1, 6);
  // Inputs of lengths 3, 2 and 4: the longest has room for the shortest.
  CHECK(first.tokens == Tokens{P, P, C, 0, 0, 0});
  CHECK(first.documents == std::vector<DocumentRows>{{0, 3}, {3, 3}});
  CHECK(second.tokens == Tokens{P, C, P, C, C, C});
  CHECK(second.targets == Tokens{C, C, C, C, C, C});
  CHECK(second.documents == std::vector<DocumentRows>{{0, 2}, {2, 4}});
  CHECK(documents->counted(1) == 6);
}

TEST_CASE("Texts that a model has written are tokens as they are, and have experts where these are told") {
  const TemporaryDirectory folder;
  // The first text tells an expert of two layers for each token but the last, and the second none.
  const std::string rows =
      R"({"prompt_token_ids": [7, 8], "token_ids": [9, 5], "routed_experts": [[[0], [1]], [[2], [0]],
    [[1], [2]]], "text": "…"})";
  const auto file = folder.write(
      "a.jsonl", std::string(rows).erase(rows.find('\n'), 1) + "\n" + R"({"prompt_token_ids": [3], "token_ids": [4]})");
  const auto experts_of = [&](bool packing, std::int64_t length, std::int64_t sample) {
    const Documents documents =
        LabelledDocuments::open(file.string(), {}, {.packing = packing}, length, {256, {{2, 3, 1}}});
    Tokens tokens(static_cast<std::size_t>(length)), targets(tokens.size()), experts(2 * tokens.size(), -7);
    documents->read(sample, {tokens, targets, experts});
    if (packing) CHECK(tokens == Tokens{7, 8, 9, 3, 0});
    if (packing) CHECK(targets == Tokens{no, 9, 5, 4, no});
    return experts;
  };
  CHECK(experts_of(true, 5, 0) == Tokens{0, 1, 2, 0, 1, 2, -1, -1, -1, -1});
  // One that is too long is cut.
  CHECK(experts_of(false, 2, 0) == Tokens{0, 1, 2, 0});
  CHECK(experts_of(false, 2, 1) == Tokens{-1, -1, -1, -1});
  const Documents plain = LabelledDocuments::open(file.string(), {}, {.counted = CountedTokens::all}, 5, {256});
  CHECK(plain->expert_numbers() == 0);
  CHECK(plain->counted(0) == 4);
}

TEST_CASE("Texts of other models are refused with what is wrong", "[refused]") {
  const TemporaryDirectory folder;
  const auto refused = [&](const std::string& changed) {
    const std::string row = R"({"prompt_token_ids": [1], "token_ids": [2, 3], )" + changed + "}";
    const auto file = folder.write("a.jsonl", row).string();
    try {
      LabelledDocuments::open(file, {}, {}, 6, {256, {{1, 4, 2}}});
    } catch (const Error& error) {
      CHECK(error.code() == ExitCode::bad_data);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(refused(R"("routed_experts": [[[0, 1]], [[3, 2]]])").empty());
  CHECK(refused(R"("routed_experts": null)").empty());
  CHECK_THAT(refused(R"("token_ids": [256])"), Catch::Contains("ids below model.vocab_size (256)"));
  CHECK_THAT(refused(R"("token_ids": [-1])"), Catch::Contains("line 1") && Catch::Contains("\"token_ids\""));
  CHECK_THAT(refused(R"("token_ids": [])"), Catch::Contains("at least one token id"));
  CHECK_THAT(refused(R"("routed_experts": [[[0, 1]]])"), Catch::Contains("no list of 2 as \"routed_experts\""));
  CHECK_THAT(refused(R"("routed_experts": [[[0, 1]], []])"), Catch::Contains("no list of 1 as \"routed_experts\"[1]"));
  CHECK_THAT(refused(R"("routed_experts": [[[0]], [[0, 1]]])"), Catch::Contains("\"routed_experts\"[0][0]"));
  CHECK_THAT(refused(R"("routed_experts": [[[0, 4]], [[0, 1]]])"), Catch::Contains("below model.moe.experts (4)"));
  CHECK_THAT(refused(R"("routed_experts": [[[0, 1]], [[1, 1]]])"), Catch::Contains("different experts"));
}

TEST_CASE("Marks around a plain document are the tokenizer's, and the end of text counts") {
  const TemporaryDirectory folder;
  const TokenizerRecipe tokenizer{TokenizerKind::huggingface,
                                  folder.write("tokenizer.json", small_tokenizer().dump()).string()};
  const auto file = folder.write("a.jsonl", R"({"prompt": "the", "completion": " the"})");
  const Documents documents = LabelledDocuments::open(file.string(), tokenizer, {}, 4, {261});
  const Read sample = read(documents, 0, 4);
  CHECK(sample.tokens == Tokens{257, 258, 0, 0});
  CHECK(sample.targets == Tokens{258, 260, no, no});
  // Messages have the template's own marks.
  const auto chat = folder.write("b.jsonl", R"({"messages": [{"role": "assistant", "content": "the"}]})");
  const Documents messages = LabelledDocuments::open(chat.string(), tokenizer, {}, 64, {261});
  const Read words = read(messages, 0, 64);
  CHECK(std::ranges::count(words.targets, 260) == 0);
  CHECK(std::ranges::count(words.targets, 257) == 1);
}

TEST_CASE("A document that is too long is cut, and left out where nothing counts then") {
  const TemporaryDirectory folder;
  const Documents documents = open_documents(folder, line(3, 9) + line(8, 2) + line(1, 1), false, 6);
  REQUIRE(documents->documents() == 2);
  CHECK(read(documents, 0, 6).targets == Tokens{no, no, C, C, C, C});
  CHECK(documents->counted(0) == 4);
  CHECK(read(documents, 1, 6).tokens == Tokens{P, 0, 0, 0, 0, 0});
}

TEST_CASE("Answers that are not desired are left out, and the chosen of two are read") {
  const TemporaryDirectory folder;
  const auto path = folder.write("a.jsonl", R"({"prompt": "PP", "completion": "CC", "label": false}
{"prompt": "P", "chosen": "CCC", "rejected": "DDD"}
{"prompt": "PP", "completion": "DD", "label": false}
)");
  const Documents documents =
      LabelledDocuments::open(path.string(), {}, {.packing = false, .preferences = Preferences::chosen}, 6, {256});
  REQUIRE(documents->samples() == 1);
  CHECK(read(documents, 0, 6).targets == Tokens{C, C, C, no, no, no});
  CHECK(documents->left_out().no_answer == 2);
}

TEST_CASE("Files without a document that counts and other files are refused") {
  const TemporaryDirectory folder;
  CHECK_THROWS_WITH(open_documents(folder, line(9, 1), true, 6),
                    Catch::Contains("no document of which a token counts"));
  const auto text = folder.write("a.txt", "text").string();
  CHECK_THROWS_WITH(LabelledDocuments::open(text, {}, {}, 6, {256}), Catch::Contains("is none of JSON Lines"));
}

TEST_CASE("Conversations come from JSON of any kind") {
  const TemporaryDirectory folder;
  const Documents expected = open_documents(folder, line(2, 2) + line(1, 3), false, 6);
  const auto check = [&](const std::string& name, const std::string& text) {
    CAPTURE(name);
    const Documents documents =
        LabelledDocuments::open(folder.write(name, text).string(), {}, {.packing = false}, 6, {256});
    REQUIRE(documents->samples() == 2);
    for (int sample : {0, 1}) CHECK(read(documents, sample, 6).targets == read(expected, sample, 6).targets);
  };
  check("a.json", "[" + line(2, 2) + "," + line(1, 3) + "]");
  check("b.json", line(2, 2) + line(1, 3));
  check("a.ndjson", line(2, 2) + line(1, 3));
}

TEST_CASE("Packing puts each document in one sequence, and wastes less than half of the sequences") {
  std::mt19937 random(5);
  for (const std::int64_t capacity : {1, 7, 100}) {
    std::vector<std::int64_t> lengths(300);
    for (auto& length : lengths) length = 1 + static_cast<std::int64_t>(random() % static_cast<unsigned>(capacity));
    const auto sequences = pack(lengths, capacity);
    std::vector<std::int64_t> seen;
    std::int64_t sum = 0;
    for (const auto& documents : sequences) {
      std::int64_t used = 0;
      for (const std::int64_t document : documents) used += lengths[static_cast<std::size_t>(document)];
      CHECK(used <= capacity);
      CHECK(std::ranges::is_sorted(documents));
      sum += used;
      seen.insert(seen.end(), documents.begin(), documents.end());
    }
    CHECK(std::ranges::is_sorted(sequences));
    std::ranges::sort(seen);
    CHECK(seen == range(0, 300));
    // Any two sequences together hold more than one could: else the second would not have been begun.
    CHECK(2 * sum > capacity * (static_cast<std::int64_t>(sequences.size()) - 1));
  }
}

// 6 + 4, 5 + 5 and 3 + 3 + 2 + 2 fill three sequences of 10; in the order of the file they would take four.
TEST_CASE("Packing fills sequences where the longest come first") {
  const std::vector<std::int64_t> lengths{3, 2, 6, 5, 3, 4, 2, 5};
  CHECK(pack(lengths, 10) == std::vector<std::vector<std::int64_t>>{{0, 1, 4, 6}, {2, 5}, {3, 7}});
}

}  // namespace llmtrain::test
