// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/vocabulary_rarity.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <set>

#include "core/data/samples/difficulty_order.h"
#include "tests/core/data/data_files.h"
#include "tests/core/data/small_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

using Numbers = std::vector<std::int64_t>;

Numbers rarity_of(const std::string& path, std::int64_t sequence_length, std::int64_t vocab_size = 65536) {
  MappingBudget budget;
  TextTokens text({}, vocab_size);
  return vocabulary_rarity(TokenSource(path, text, vocab_size, budget), sequence_length, vocab_size, [](double) {});
}

// Samples of two tokens: sample k of this file begins with token k. Later samples have rarer second tokens.
std::string graded_file(const TemporaryDirectory& folder, std::int64_t samples) {
  Tokens tokens;
  for (std::int64_t k = 0; k < samples; ++k) {
    tokens.push_back(k);
    tokens.push_back(1000 + static_cast<std::int64_t>(std::log2(static_cast<double>(samples - k))));
  }
  tokens.push_back(0);
  return folder.write("graded.bin", little_endian<std::uint16_t>(tokens)).string();
}

Dataset graded(const TemporaryDirectory& folder, bool shuffle, const DataCache& cache = {}) {
  Dataset dataset = open(graded_file(folder, 400), {.sequence_length = 2, .shuffle = shuffle});
  dataset.order_by_rarity({}, cache);
  return dataset;
}

Numbers read_samples(const Dataset& dataset, std::int64_t position, std::int64_t count, std::int64_t percent) {
  Numbers samples;
  for (std::int64_t i = 0; i < count; ++i) samples.push_back(sample(dataset, position + i, 2, percent).front());
  return samples;
}

Numbers sorted_numbers(Numbers numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// Eight a, four b, two c and two d: −ln p is ln 2, ln 4, ln 8 and ln 8.
constexpr const char* powers = "aaaaaaaabbbbccdd";

}  // namespace

// Samples of four tokens: 4 ln 2 = 2.77, again, and 4 ln 4 = 5.55; that of c and d needs a token after it. Samples of
// five: 5 ln 2 = 3.47, 3 ln 2 + 2 ln 4 = 4.85 and 2 ln 4 + 3 ln 8 = 9.01.
TEST_CASE("rarity is the sum of -ln p over a sample's tokens, truncated", "[curriculum]") {
  const TemporaryDirectory folder;
  const std::string file = folder.write("powers.txt", powers).string();
  CHECK(rarity_of(file, 4) == Numbers{2, 2, 5});
  CHECK(rarity_of(file, 5) == Numbers{3, 4, 9});
}

TEST_CASE("rarity of a large source does not depend on how it is cut up", "[curriculum]") {
  const TemporaryDirectory folder;
  Tokens tokens;
  for (std::int64_t i = 0; i < 1'500'001; ++i) tokens.push_back(i * i % 997);
  const std::string file = folder.write("large.bin", little_endian<std::uint16_t>(tokens)).string();
  Numbers counts(997, 0);
  for (const std::int64_t token : tokens) ++counts[static_cast<std::size_t>(token)];
  const Numbers rarity = rarity_of(file, 1000, 997);
  REQUIRE(rarity.size() == 1500);
  for (std::size_t sample = 0; sample < rarity.size(); ++sample) {
    double sum = 0;
    for (std::size_t i = sample * 1000; i < (sample + 1) * 1000; ++i)
      sum -= std::log(static_cast<double>(counts[static_cast<std::size_t>(tokens[i])]) / 1'500'001.0);
    if (rarity[sample] != static_cast<std::int64_t>(sum)) FAIL("sample " << sample);
  }
}

TEST_CASE("the easiest samples alone are drawn, each once before any is drawn again", "[curriculum]") {
  const TemporaryDirectory folder;
  const Dataset dataset = graded(folder, true);
  for (const std::int64_t percent : {1, 7, 50, 99}) {
    const std::int64_t count = 400 * percent / 100;
    const Numbers first = read_samples(dataset, 0, count, percent);
    // The most frequent tokens are those of the first samples.
    CHECK(sorted_numbers(first) == range(0, count));
    const Numbers second = read_samples(dataset, count, count, percent);
    CHECK(sorted_numbers(second) == range(0, count));
    CHECK(first != second);
  }
  // Another number of samples has another order.
  const Numbers half = read_samples(dataset, 0, 50, 50), more = read_samples(dataset, 0, 50, 51);
  int equal = 0;
  for (std::size_t i = 0; i < half.size(); ++i) equal += half[i] == more[i] ? 1 : 0;
  CHECK(equal < 5);
  // The whole of them: the order without a curriculum.
  const Dataset plain = open(graded_file(folder, 400), {.sequence_length = 2, .shuffle = true});
  CHECK(read_samples(dataset, 123, 300, 100) == read_samples(plain, 123, 300, 100));
}

TEST_CASE("without shuffle the easiest samples come first, the earlier of equally easy ones", "[curriculum]") {
  const TemporaryDirectory folder;
  CHECK(read_samples(graded(folder, false), 0, 10, 2) == Numbers{0, 1, 2, 3, 4, 5, 6, 7, 0, 1});
  CHECK(DifficultyOrder({5, 3, 5, 1, 3}).sample(1) == 1);
}

TEST_CASE("a source of few samples has at least one easy one", "[curriculum]") {
  const TemporaryDirectory folder;
  Dataset dataset = open(folder.write("powers.txt", powers).string(), {.sequence_length = 4, .shuffle = true});
  dataset.order_by_rarity({}, {});
  CHECK(sample(dataset, 17, 4, 1) == Tokens{'a', 'a', 'a', 'a', 'a'});
}

TEST_CASE("each source of a blend has easiest samples of its own", "[curriculum]") {
  const TemporaryDirectory folder;
  const std::string other = folder.write("powers.txt", powers).string();
  Dataset dataset =
      open({DataSource{graded_file(folder, 400), 3}, DataSource{other, 1}}, {.sequence_length = 2, .shuffle = true});
  dataset.order_by_rarity({}, {});
  const Numbers samples = read_samples(dataset, 0, 400, 25);
  CHECK(std::ranges::count(samples, 'a') >= 100);
  std::set<std::int64_t> of_first;
  for (std::int64_t i = 0; i < 400; ++i)
    if (samples[static_cast<std::size_t>(i)] != 'a') of_first.insert(samples[static_cast<std::size_t>(i)]);
  CHECK(of_first.size() >= 99);
  CHECK(*of_first.rbegin() == 99);
}

TEST_CASE("an order is made once, kept, and made again for other data", "[curriculum]") {
  const TemporaryDirectory folder;
  const std::filesystem::path kept = folder.path() / "run" / "data-cache";
  int asked = 0;
  const DataCache cache{kept, [&](const auto& make) {
                          ++asked;
                          return make([] { return false; });
                        }};
  const Numbers expected = read_samples(graded(folder, true), 0, 100, 10);
  CHECK(read_samples(graded(folder, true, cache), 0, 100, 10) == expected);
  const auto made = std::filesystem::last_write_time(kept / "vocabulary-rarity-0");
  const std::filesystem::path file = folder.path() / "graded.bin";
  const auto use_again = [&] {
    Dataset dataset = open(file.string(), {.sequence_length = 2, .shuffle = true});
    dataset.order_by_rarity({}, cache);
    return read_samples(dataset, 0, 100, 10);
  };
  CHECK(use_again() == expected);
  CHECK(std::filesystem::last_write_time(kept / "vocabulary-rarity-0") == made);
  CHECK(asked == 2);

  // A file that was cut short, or that another program wrote, is replaced.
  for (const char* content : {"llmtrain order 1", ""}) {
    folder.write("run/data-cache/vocabulary-rarity-0", content);
    CHECK(use_again() == expected);
  }
  // So is that of other tokens.
  const auto time = std::filesystem::last_write_time(file);
  Tokens backwards;
  for (std::int64_t k = 0; k < 800; ++k) backwards.push_back(k % 2 == 0 ? 500 + k / 2 : k < 400 ? k : 1000);
  backwards.push_back(0);
  folder.write("graded.bin", little_endian<std::uint16_t>(backwards));
  std::filesystem::last_write_time(file, time + std::chrono::seconds(1));
  const Numbers later = use_again();
  CHECK(std::ranges::min(later) == 700);
}

TEST_CASE("an order is made again for all that a text's tokens follow from", "[curriculum]") {
  const TemporaryDirectory folder;
  auto tokenizer = small_tokenizer();
  tokenizer["added_tokens"] = {{{"id", 261},
                                {"content", "<end>"},
                                {"special", true},
                                {"single_word", false},
                                {"lstrip", false},
                                {"rstrip", false},
                                {"normalized", false}}};
  const std::string file = folder.write("tokenizer.json", tokenizer.dump()).string();
  const TextFormat format{{TokenizerKind::huggingface, file}, {}, {}};
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += "{\"text\": \"a\"}\n";
  const std::vector<DataSource> sources{{folder.write("letters.jsonl", lines).string(), 1}};
  const auto samples = [&] {
    Dataset dataset(sources, format, 2, 262, false, 5, "/data/train");
    const std::int64_t count = dataset.samples();
    dataset.order_by_rarity(format.tokenizer, {folder.path() / "cache"});
    for (std::int64_t number = 0; number < count; ++number) sample(dataset, number, 2, 99);
    return count;
  };
  CHECK(samples() == 49);
  // A mark after each document doubles the tokens, and is in no other file of the tokenizer's.
  folder.write("tokenizer_config.json", R"({"eos_token": "<end>"})");
  CHECK(samples() == 99);
  std::filesystem::remove(folder.path() / "tokenizer_config.json");
  CHECK(samples() == 49);
}

TEST_CASE("ordering stops on request", "[curriculum]") {
  const TemporaryDirectory folder;
  const DataCache cache{folder.path() / "cache", [](const auto& make) { return make([] { return true; }); }};
  require_error(ExitCode::stopped, {"while reading the vocabulary rarity of 400 samples"},
                [&] { graded(folder, false, cache); });
  CHECK_FALSE(std::filesystem::exists(folder.path() / "cache" / "vocabulary-rarity-0"));
}

TEST_CASE("an order of other samples is not used", "[curriculum]") {
  const TemporaryDirectory folder;
  Dataset dataset = open(graded_file(folder, 400), {.sequence_length = 2});
  const std::filesystem::path kept = folder.path() / "vocabulary-rarity-0";
  // As of a first rank that sees other files.
  const DataCache cache{folder.path(), [&](const auto&) {
                          DifficultyOrder({3, 1, 2}).write(kept, "of another machine");
                          return std::string("of another machine");
                        }};
  require_error(ExitCode::bad_data, {"/data/train/0/path", "400 samples here, 3 on the first rank"},
                [&] { dataset.order_by_rarity({}, cache); });
}

TEST_CASE("an order that is damaged is said to be", "[curriculum]") {
  const TemporaryDirectory folder;
  const std::filesystem::path file = folder.path() / "order";
  DifficultyOrder({3, 1, 2}).write(file, "key");
  CHECK(DifficultyOrder(file, "key").sample(0) == 1);
  CHECK(DifficultyOrder(file, "key").samples() == 3);
  require_error(ExitCode::bad_data, {"order", "remove it"}, [&] { DifficultyOrder(file, "another key"); });
  std::string text = read_file(file);
  text[text.size() - 12] = 7;
  folder.write("order", text);
  require_error(ExitCode::bad_data, {"order", "is damaged"}, [&] { DifficultyOrder(file, "key").sample(0); });
}

}  // namespace llmtrain::test
