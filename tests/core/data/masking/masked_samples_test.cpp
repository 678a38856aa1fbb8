// SPDX-License-Identifier: Apache-2.0
#include "core/data/masking/masked_samples.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "core/data/samples/shown_sample.h"
#include "core/tokenizer/open_tokenizer.h"
#include "tests/core/data/data_files.h"
#include "tests/core/data/small_tokenizer.h"
#include "tests/support/temporary_directory.h"

// A namespace of its own, as several tests have a `Read`.
namespace llmtrain::test::masked_samples {
namespace {

constexpr std::int64_t mask = 256, vocabulary = 257, length = 20;

// Texts are bytes, and id 256 is the mask.
Recipe byte_recipe(const MaskingRecipe& masking) {
  Recipe recipe;
  recipe.model.vocab_size = vocabulary;
  recipe.data.masking = masking;
  recipe.data.masking->token = mask;
  return recipe;
}

Dataset open_with(const Recipe& recipe, const std::string& path, SampleDraws draws = SampleDraws::by_seed,
                  std::int64_t seed = 1, bool shuffle = false) {
  TextFormat format = text_format(recipe);
  format.draws = draws;
  return {{DataSource{path, 1}}, format, length, recipe.model.vocab_size, shuffle, seed, "/data/train"};
}

struct Read {
  Tokens ids = Tokens(length, -7), targets = ids, starts = ids;
  std::vector<std::uint8_t> counted = std::vector<std::uint8_t>(length, 9);

  std::int64_t count() const { return std::accumulate(counted.begin(), counted.end(), std::int64_t{0}); }
  bool operator==(const Read&) const = default;
};

Read read(const SampleSource& samples, std::int64_t number) {
  Read result;
  FieldMemory memory;
  memory.set(BatchField::token_ids, std::span(result.ids));
  memory.set(BatchField::targets, std::span(result.targets));
  memory.set(BatchField::counted_rows, std::span(result.counted));
  if (samples.sequences().front().has_documents) memory.document_starts.emplace_back(result.starts);
  samples.read(number, memory);
  return result;
}

// Sentences of letters in no order that repeats.
std::string text_of(int letters) {
  std::string text;
  for (int i = 0; i < letters; ++i) text += i % 5 == 4 ? ' ' : static_cast<char>('a' + i * i % 26);
  return text;
}

}  // namespace

TEST_CASE("A masked sample has its tokens as targets, and weighs what counts") {
  const TemporaryDirectory folder;
  const std::string text = text_of(201);
  const Dataset data = open_with(byte_recipe({}), folder.write("a.txt", text).string());
  REQUIRE(data.samples() == 10);
  CHECK(data.restores_tokens());
  CHECK_FALSE(data.sequences().front().can_be_cut);
  for (std::int64_t number = 0; number < 30; ++number) {
    const Read sample = read(data, number);
    const auto begin = text.begin() + number % 10 * length;
    CHECK(std::equal(sample.targets.begin(), sample.targets.end(), begin));
    CHECK(sample.count() == 3);
    for (std::size_t row = 0; row < length; ++row)
      if (sample.counted[row] == 0) CHECK(sample.ids[row] == sample.targets[row]);
  }
  CHECK(data.weight(0, 5, 7) == 21);
}

TEST_CASE("Masks differ each time a sample is read in training, and follow from the seed and the number") {
  const TemporaryDirectory folder;
  const std::string path = folder.write("a.txt", text_of(201)).string();
  const Recipe recipe = byte_recipe({.probability = 0.5});
  const Dataset data = open_with(recipe, path), again = open_with(recipe, path),
                other = open_with(recipe, path, SampleDraws::by_seed, 2);
  std::set<std::vector<std::uint8_t>> seen;
  for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
    const Read sample = read(data, 10 * epoch);
    CHECK(sample == read(again, 10 * epoch));
    CHECK(sample.counted != read(other, 10 * epoch).counted);
    seen.insert(sample.counted);
  }
  // There are 184,756 choices of ten among twenty.
  CHECK(seen.size() == 8);
}

TEST_CASE("The masks of validation data are the same for every seed, and each time they are read") {
  const TemporaryDirectory folder;
  const std::string path = folder.write("a.txt", text_of(201)).string();
  const Recipe recipe = byte_recipe({.probability = 0.5});
  const Dataset data = open_with(recipe, path, SampleDraws::fixed),
                other = open_with(recipe, path, SampleDraws::fixed, 2);
  for (std::int64_t number = 0; number < 10; ++number) {
    CHECK(read(data, number) == read(data, number + 10));
    CHECK(read(data, number) == read(other, number));
  }
  CHECK(read(data, 0).counted != read(data, 1).counted);
}

TEST_CASE("Single texts are padded with a document that counts nowhere, and weigh by their own lengths") {
  const TemporaryDirectory folder;
  const std::string lines = "{\"text\": \"abcdefghij\"}\n{\"text\": \"\"}\n{\"text\": \"ab\"}\n{\"text\": \"" +
                            std::string(25, 'x') + "\"}\n";
  const Dataset data =
      open_with(byte_recipe({.probability = 0.4, .single_texts = true}), folder.write("a.jsonl", lines).string());
  REQUIRE(data.samples() == 3);
  const Read first = read(data, 0), second = read(data, 1), third = read(data, 2);
  CHECK(std::vector{first.count(), second.count(), third.count()} == std::vector<std::int64_t>{4, 1, 8});
  CHECK(std::vector{data.weight(0, 0, 1), data.weight(0, 0, 3)} == std::vector{4.0, 13.0});
  CHECK(std::ranges::count(first.starts, 1) == 2);
  CHECK(first.starts[10] == 1);
  CHECK(std::ranges::count(third.starts, 1) == 1);
  for (std::size_t row = 10; row < length; ++row) {
    CHECK(first.ids[row] == 0);
    CHECK(first.counted[row] == 0);
  }
  CHECK(data.left_out().front().truncated == 1);
  CHECK(data.documents_of(1) == std::vector<DocumentRows>{{0, 2}});
  CHECK_THROWS_WITH(open_with(byte_recipe({.single_texts = true}), folder.write("b.bin", "abcdefgh").string()),
                    Catch::Contains("is a token file") && Catch::Contains("data.masking.single_texts"));
  CHECK_THROWS_WITH(
      open_with(byte_recipe({.single_texts = true}), folder.write("c.jsonl", "{\"text\": \"\"}\n").string()),
      Catch::Contains("holds no text"));
}

TEST_CASE("The tokens of documents that share a sequence are hidden, not what ends them") {
  const TemporaryDirectory folder;
  Recipe recipe = byte_recipe({.probability = 0.9});
  recipe.data.document_mask = DocumentMaskRecipe{'\n'};
  const Dataset data = open_with(recipe, folder.write("a.txt", "abc\nabcdefg\nabcd\nabcde\n").string());
  const Read sample = read(data, 0);
  CHECK(data.sequences().front().has_documents);
  // 18 of 20: the three ends of documents but for one that must make up the number.
  CHECK(sample.count() == 18);
  for (std::size_t row : {3, 11, 16}) CHECK(sample.ids[row] == '\n');
  CHECK(sample.counted[3] + sample.counted[11] + sample.counted[16] == 1);
  CHECK(sample.starts[4] == 1);
}

TEST_CASE("A masked sample is shown as the model sees it, with what each hidden token is") {
  const TemporaryDirectory folder;
  const std::string text = text_of(21);
  // All counted tokens become a random byte.
  const Dataset data =
      open_with(byte_recipe({.probability = 0.3, .replaced = 0, .random = 1}), folder.write("a.txt", text).string());
  const auto tokenizer = open_tokenizer(TokenizerRecipe{});
  const ShownSample shown = shown_sample(data, 0, *tokenizer);
  REQUIRE(shown.documents.size() == 1);
  CHECK(shown.documents.front().tokens == length);
  CHECK(shown.documents.front().counted == 6);
  const Read sample = read(data, 0);
  std::string seen, original;
  std::int64_t counted = 0;
  for (const ShownSample::Part& part : shown.documents.front().parts) {
    seen += part.text;
    original += part.hidden.empty() ? part.text : part.hidden;
    if (part.counts) counted += std::ssize(part.text);
    if (!part.hidden.empty()) CHECK(part.counts);
  }
  CHECK(counted == 6);
  CHECK(original == text.substr(0, length));
  CHECK(seen == tokenizer->decode(sample.ids));
}

TEST_CASE("The mask is the tokenizer's, or the recipe's where it has none") {
  const TemporaryDirectory folder;
  nlohmann::json tokenizer = small_tokenizer();
  const std::string file = folder.write("tokenizer.json", tokenizer.dump()).string();
  Recipe recipe;
  recipe.model.vocab_size = 300;
  recipe.data.tokenizer = {TokenizerKind::huggingface, file};
  CHECK(masking_of(recipe) == nullptr);
  recipe.data.masking = MaskingRecipe{};
  CHECK_THROWS_WITH(masking_of(recipe), Catch::Contains(file) && Catch::Contains("data.masking.token"));
  recipe.data.masking->token = 299;
  CHECK(masking_of(recipe)->vocabulary.mask == 299);
  recipe.data.masking->token.reset();
  tokenizer["added_tokens"].push_back({{"id", 261}, {"content", "<mask>"}, {"special", true}, {"normalized", false}});
  folder.write("tokenizer.json", tokenizer.dump());
  const MaskingVocabulary vocabulary_here = masking_of(recipe)->vocabulary;
  CHECK(vocabulary_here.mask == 261);
  CHECK(vocabulary_here.is_special[260]);   // <|endoftext|>
  CHECK(vocabulary_here.begins_word[258]);  // " the"
  CHECK_FALSE(vocabulary_here.begins_word[257]);
  CHECK(vocabulary_here.replacements.size() == 260);
  folder.write("tokenizer_config.json", R"({"mask_token": "th", "eos_token": "<|endoftext|>"})");
  CHECK(masking_of(recipe)->vocabulary.mask == 256);
}

TEST_CASE("Token files without a tokenizer have no special ids but the mask and the end of documents") {
  const TemporaryDirectory folder;
  Recipe recipe = byte_recipe({});
  recipe.model.vocab_size = 1000;
  recipe.data.train = {DataSource{"a.bin", 1}};
  recipe.data.document_mask = DocumentMaskRecipe{999};
  const MaskingVocabulary made = masking_of(recipe)->vocabulary;
  CHECK(made.replacements.size() == 998);
  CHECK((made.is_special[mask] && made.is_special[999] && !made.is_special[500]));
}

}  // namespace llmtrain::test::masked_samples
