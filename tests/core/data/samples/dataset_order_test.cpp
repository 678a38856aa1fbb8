// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/core/data/data_files.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

// A raw token file of 0, 1, 2, …: the first token of a sample identifies it.
std::string counting_file(const TemporaryDirectory& folder, std::int64_t tokens, std::int64_t first_token = 0) {
  const std::string name = "count-" + std::to_string(first_token) + "-" + std::to_string(tokens) + ".bin";
  return folder.write(name, little_endian<std::uint16_t>(range(first_token, tokens))).string();
}

// The first tokens of these positions.
Tokens first_tokens(const Dataset& dataset, std::int64_t position, std::int64_t count, std::int64_t sequence_length) {
  Tokens result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(sample(dataset, position + i, sequence_length).front());
  return result;
}

Tokens sorted(Tokens tokens) {
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

}  // namespace

TEST_CASE("Without shuffle sample i is tokens i·T to i·T + T, epoch after epoch") {
  const TemporaryDirectory folder;
  for (const std::int64_t length : {1, 2, 3, 7, 64}) {
    for (const std::int64_t tokens : {65, 66, 127, 128, 129, 500}) {
      const auto dataset = open(counting_file(folder, tokens), {.sequence_length = length});
      const std::int64_t samples = (tokens - 1) / length;
      CHECK(dataset.samples() == samples);
      for (std::int64_t position = 0; position < 2 * samples + 1; ++position) {
        const Tokens expected = range(position % samples * length, length + 1);
        if (sample(dataset, position, length) != expected) FAIL("T " << length << ", position " << position);
      }
    }
  }
}

TEST_CASE("Samples continue across the files of a source") {
  const TemporaryDirectory folder;
  folder.write("a.txt", "abc");
  folder.write("b.txt", "d");
  folder.write("c.txt", "efghij");
  const auto dataset = open(folder.path().string(), {.sequence_length = 4});
  CHECK(dataset.files() == 3);
  CHECK(dataset.tokens() == 10);
  CHECK(dataset.samples() == 2);
  CHECK(sample(dataset, 0, 4) == range('a', 5));
  CHECK(sample(dataset, 1, 4) == range('e', 5));
}

TEST_CASE("With shuffle every sample occurs exactly once per epoch") {
  const TemporaryDirectory folder;
  for (std::int64_t samples = 1; samples <= 60; ++samples) {
    const auto dataset = open(counting_file(folder, 3 * samples + 1), {.sequence_length = 3, .shuffle = true});
    Tokens every;
    for (std::int64_t i = 0; i < samples; ++i) every.push_back(3 * i);
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      const Tokens seen = first_tokens(dataset, epoch * samples, samples, 3);
      if (sorted(seen) != every) FAIL(samples << " samples, epoch " << epoch);
    }
  }
  SUCCEED();
}

TEST_CASE("With shuffle a sample is still T + 1 consecutive tokens") {
  const TemporaryDirectory folder;
  const auto dataset = open(counting_file(folder, 1000), {.sequence_length = 8, .shuffle = true});
  for (std::int64_t position = 0; position < 200; ++position) {
    const Tokens tokens = sample(dataset, position, 8);
    REQUIRE(tokens == range(tokens.front(), 9));
    REQUIRE(tokens.front() % 8 == 0);
  }
}

TEST_CASE("The order depends on the seed and differs between epochs") {
  const TemporaryDirectory folder;
  const std::string path = counting_file(folder, 101);
  const auto order = [&](std::int64_t seed, std::int64_t epoch) {
    return first_tokens(open(path, {.sequence_length = 1, .shuffle = true, .seed = seed}), epoch * 100, 100, 1);
  };
  CHECK(order(1, 0) == order(1, 0));
  CHECK(order(1, 0) != order(2, 0));
  CHECK(order(1, 0) != order(1, 1));
  CHECK(order(1, 1) != order(2, 0));
  CHECK(order(1, 0) != range(0, 100));
  CHECK(order(-1, 0) != order(1, 0));
}

// Computed by a Python implementation of the published construction; resumed runs rely on these values.
TEST_CASE("The shuffled order does not change between versions") {
  const TemporaryDirectory folder;
  const auto dataset = open(counting_file(folder, 11), {.sequence_length = 1, .shuffle = true, .seed = 1234});
  CHECK(first_tokens(dataset, 0, 10, 1) == Tokens{4, 6, 1, 7, 8, 5, 9, 2, 3, 0});
  CHECK(first_tokens(dataset, 10, 10, 1) == Tokens{0, 5, 6, 7, 4, 2, 3, 1, 8, 9});
}

TEST_CASE("Each source of a blend has its own order") {
  const TemporaryDirectory folder;
  const std::string path = counting_file(folder, 11);
  const auto dataset = open({{path, 1}, {path, 1}}, {.sequence_length = 1, .shuffle = true, .seed = 7});
  Tokens second;
  for (std::int64_t position = 1; position < 20; position += 2) second.push_back(sample(dataset, position, 1).front());
  CHECK(second == Tokens{4, 6, 7, 0, 3, 2, 5, 9, 1, 8});
}

TEST_CASE("A blend draws from its sources by weight, from each in its own order") {
  const TemporaryDirectory folder;
  const std::string low = counting_file(folder, 101, 0);
  const std::string high = counting_file(folder, 31, 1000);
  const auto dataset = open({{low, 3}, {high, 1}}, {.sequence_length = 1});
  CHECK(dataset.samples() == 130);
  CHECK(dataset.tokens() == 132);
  CHECK(dataset.files() == 2);
  Tokens of_low;
  Tokens of_high;
  for (const std::int64_t token : first_tokens(dataset, 0, 400, 1)) (token < 1000 ? of_low : of_high).push_back(token);
  REQUIRE(of_low.size() == 300);
  REQUIRE(of_high.size() == 100);
  for (std::size_t i = 0; i < 300; ++i) REQUIRE(of_low[i] == static_cast<std::int64_t>(i % 100));
  for (std::size_t i = 0; i < 100; ++i) REQUIRE(of_high[i] == static_cast<std::int64_t>(1000 + i % 30));
}

TEST_CASE("Random access equals sequential reading, whatever was read before and by whom") {
  const TemporaryDirectory folder;
  const std::vector<DataSource> sources{
      {counting_file(folder, 211), 0.7}, {counting_file(folder, 97, 500), 0.2}, {counting_file(folder, 41, 900), 0.1}};
  const DatasetParts parts{.sequence_length = 5, .shuffle = true};
  const auto in_order = open(sources, parts);
  std::vector<Tokens> expected;
  for (std::int64_t position = 0; position < 500; ++position) expected.push_back(sample(in_order, position, 5));
  const auto backwards = open(sources, parts);
  for (std::int64_t position = 499; position >= 0; --position) {
    REQUIRE(sample(backwards, position, 5) == expected[static_cast<std::size_t>(position)]);
  }
  for (std::int64_t i = 0; i < 500; ++i) {
    const std::int64_t position = i * 197 % 500;
    REQUIRE(sample(in_order, position, 5) == expected[static_cast<std::size_t>(position)]);
  }
}

TEST_CASE("Replicas that share a batch read the same samples as one that reads it all") {
  const TemporaryDirectory folder;
  const DatasetParts parts{.sequence_length = 3, .shuffle = true};
  const std::string path = counting_file(folder, 700);
  const auto whole = open(path, parts);
  for (const std::int64_t replicas : {2, 3, 4, 6, 12}) {
    for (std::int64_t replica = 0; replica < replicas; ++replica) {
      const auto own = open(path, parts);
      for (std::int64_t step = 0; step < 30; ++step) {
        for (std::int64_t i = replica; i < 12; i += replicas) {
          REQUIRE(sample(own, step * 12 + i, 3) == sample(whole, step * 12 + i, 3));
        }
      }
    }
  }
}

TEST_CASE("Distant positions are read like near ones") {
  const TemporaryDirectory folder;
  const auto dataset = open(counting_file(folder, 11), {.sequence_length = 1});
  CHECK(sample(dataset, 1'000'000'000'000'000'003, 1) == Tokens{3, 4});
}

TEST_CASE("A data set can be moved") {
  const TemporaryDirectory folder;
  Dataset first = open(counting_file(folder, 11), {.sequence_length = 2});
  const Dataset second = std::move(first);
  CHECK(sample(second, 1, 2) == range(2, 3));
}

}  // namespace llmtrain::test
