// SPDX-License-Identifier: Apache-2.0
#include "core/data/denoising/denoised_samples.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <set>

#include "core/data/samples/dataset.h"
#include "tests/core/data/data_files.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test::denoised_samples {
namespace {

constexpr std::int64_t source_length = 24, target_length = 24, longest = 20;
constexpr std::int64_t vocabulary = 264, end = 256, padding = 257, first_mark = 258;

// Texts are bytes, which ids behind them mark.
Dataset open_with(const TemporaryDirectory& folder, Noise noise, std::int64_t seed = 1) {
  auto denoising = std::make_shared<Denoising>();
  denoising->recipe.noise = noise;
  denoising->behind = {end};
  denoising->sentinels = {first_mark, first_mark + 1, first_mark + 2, first_mark + 3};
  denoising->mask = first_mark;
  denoising->padding = denoising->decoder_start = padding;
  denoising->source_length = source_length;
  denoising->target_length = target_length;
  denoising->longest = longest;
  TextFormat format;
  format.denoising = denoising;
  std::string text;
  for (int i = 0; i < 201; ++i) text += static_cast<char>('a' + i * i % 26);
  const std::string path = folder.write("a.txt", text).string();
  return {{DataSource{path, 1}}, format, source_length, vocabulary, false, seed, "/data/train"};
}

struct Read {
  Tokens source = Tokens(source_length, -7), targets = Tokens(target_length, -7);
  std::vector<std::uint8_t> counted = std::vector<std::uint8_t>(target_length, 9);

  std::int64_t count() const { return std::accumulate(counted.begin(), counted.end(), std::int64_t{0}); }
};

Read read(const SampleSource& samples, std::int64_t number) {
  Read result;
  FieldMemory memory;
  memory.set(BatchField::source_ids, std::span(result.source));
  memory.set(BatchField::targets, std::span(result.targets));
  memory.set(BatchField::counted_rows, std::span(result.counted));
  samples.read(number, memory);
  return result;
}

}  // namespace

TEST_CASE("A damaged text weighs what its target has of tokens, the mark at its end included") {
  const TemporaryDirectory folder;
  for (const Noise noise : {Noise::spans, Noise::infilling}) {
    const Dataset data = open_with(folder, noise);
    REQUIRE(data.samples() == 10);
    for (std::int64_t number = 0; number < data.samples(); ++number) {
      const Read sample = read(data, number);
      CHECK(static_cast<double>(sample.count()) == data.weight(0, number, 1));
      CHECK(sample.targets.at(static_cast<std::size_t>(sample.count() - 1)) == end);
    }
  }
}

TEST_CASE("Texts are damaged anew each time a sample is read in training, by the seed and the number") {
  const TemporaryDirectory folder;
  const Dataset data = open_with(folder, Noise::infilling), again = open_with(folder, Noise::infilling),
                other = open_with(folder, Noise::infilling, 2);
  std::set<Tokens> seen, of_other;
  for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
    const Read sample = read(data, 10 * epoch);
    CHECK(sample.source == read(again, 10 * epoch).source);
    seen.insert(sample.source);
    of_other.insert(read(other, 10 * epoch).source);
  }
  // A few of eight may be alike by chance, as six of twenty tokens are taken out in few parts.
  CHECK(seen.size() > 4);
  CHECK(seen != of_other);
}

}  // namespace llmtrain::test::denoised_samples
