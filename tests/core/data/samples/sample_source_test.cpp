// SPDX-License-Identifier: Apache-2.0
// What sources say of their samples, and which parts of them are read.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "core/data/samples/labelled_samples.h"
#include "core/data/samples/step_samples.h"
#include "tests/core/data/data_files.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

Tokens read(const SampleSource& source, std::int64_t number, BatchField field, std::int64_t length,
            std::int64_t first_row = 0) {
  Tokens values(static_cast<std::size_t>(length), -7);
  FieldMemory memory{.first_row = first_row};
  memory.set(field, std::span(values));
  source.read(number, memory);
  return values;
}

Tokens read_starts(const SampleSource& source, std::int64_t number, std::int64_t length, std::int64_t first_row = 0) {
  Tokens starts(static_cast<std::size_t>(length), -7);
  source.read(number, {.document_starts = {std::span(starts)}, .first_row = first_row});
  starts.front() = 1;  // of which nothing is said
  return starts;
}

std::vector<std::string_view> names_of(const SampleSource& source) {
  std::vector<std::string_view> names;
  for (const SampleField& field : source.fields()) names.push_back(batch_field_names[index_of(field.name)]);
  return names;
}

// 0, 1, 2, ...
Dataset counting(const TemporaryDirectory& folder, std::int64_t tokens, const DatasetParts& parts) {
  return open(folder.write("count.bin", little_endian<std::uint16_t>(range(0, tokens))).string(), parts);
}

constexpr std::int64_t newline = '\n';

}  // namespace

TEST_CASE("Each field of a sample is read alone, whole or in part") {
  const TemporaryDirectory folder;
  const Dataset dataset = counting(folder, 41, {.sequence_length = 10});
  CHECK(names_of(dataset) == std::vector<std::string_view>{"token_ids", "targets"});
  CHECK(read(dataset, 2, BatchField::token_ids, 10) == range(20, 10));
  CHECK(read(dataset, 2, BatchField::targets, 10) == range(21, 10));
  CHECK(read(dataset, 1, BatchField::token_ids, 3, 7) == range(17, 3));
  CHECK(read(dataset, 1, BatchField::targets, 3, 7) == range(18, 3));
  CHECK_THROWS_AS(read(dataset, 1, BatchField::targets, 3, 8), std::invalid_argument);
  CHECK(dataset.weight(0, 3, 5) == 50);
}

TEST_CASE("Documents are found where no tokens are asked for, in parts of samples, too") {
  const TemporaryDirectory folder;
  TextFormat format;
  format.document_end = newline;
  const std::vector<DataSource> sources{{folder.write("a.txt", "ab\ncde\nf\ngh\n").string(), 1}};
  const Dataset dataset(sources, format, 6, 256, false, 1, "/data/train");
  CHECK(dataset.sequences().front().has_documents);
  CHECK(read_starts(dataset, 0, 6) == Tokens{1, 0, 0, 1, 0, 0});
  CHECK(read_starts(dataset, 0, 4, 2) == Tokens{1, 1, 0, 0});
}

// The inputs of the two conversations have three and four bytes; what completes them counts.
TEST_CASE("Samples of conversations mark the rows that count, and have a target in the others") {
  const TemporaryDirectory folder;
  const std::string lines = R"({"prompt": "PP", "completion": "CC"})"
                            "\n"
                            R"({"prompt": "P", "completion": "DDDD"})"
                            "\n";
  TextFormat format;
  format.fine_tuning = FineTuningRecipe{.packing = true};
  const std::vector<DataSource> sources{{folder.write("a.jsonl", lines).string(), 1}};
  const Dataset dataset(sources, format, 8, 256, false, 1, "/data/train");
  CHECK(names_of(dataset) == std::vector<std::string_view>{"token_ids", "targets", "counted_rows"});
  REQUIRE(dataset.samples() == 1);
  CHECK(read(dataset, 0, BatchField::token_ids, 8) == Tokens{'P', 'P', 'C', 'P', 'D', 'D', 'D', 0});
  CHECK(read(dataset, 0, BatchField::targets, 8) == Tokens{0, 'C', 'C', 'D', 'D', 'D', 'D', 0});
  CHECK(read_starts(dataset, 0, 8) == Tokens{1, 0, 0, 1, 0, 0, 0, 1});
  std::vector<std::uint8_t> marks(8, 9);
  FieldMemory memory;
  memory.set(BatchField::counted_rows, std::span(marks));
  dataset.read(0, memory);
  CHECK(marks == std::vector<std::uint8_t>{0, 1, 1, 1, 1, 1, 1, 0});
  CHECK(dataset.weight(0, 0, 3) == 3 * 6);
}

// Two samples of ten make a micro-batch: two sequences of four from the start of each, and the last four of the first.
TEST_CASE("A step's sequences are cut out of the samples of each micro-batch") {
  const TemporaryDirectory folder;
  const Dataset dataset = counting(folder, 101, {.sequence_length = 10});
  const BatchRecipe batch{.global = 4, .micro = 2, .sequence_length = 10};
  const StepSamples cut(dataset, batch, {.first_sample = 3, .shape = {5, 4, 0, batch.global}});
  CHECK(cut.samples() == 10);
  CHECK(cut.sequences().front().length == 4);
  CHECK(cut.fields().front().shape == std::vector<std::int64_t>{4});
  CHECK(cut.weight(0, 0, 10) == 40);
  Tokens begins;
  for (std::int64_t number = 0; number < 10; ++number) {
    const Tokens ids = read(cut, number, BatchField::token_ids, 4);
    CHECK(ids == range(ids.front(), 4));
    CHECK(read(cut, number, BatchField::targets, 4) == range(ids.front() + 1, 4));
    begins.push_back(ids.front());
  }
  CHECK(begins == Tokens{30, 34, 40, 44, 36, 50, 54, 60, 64, 56});
  const StepSamples whole(dataset, batch, {.first_sample = 3, .shape = {2, 10, 0, batch.global}});
  CHECK(read(whole, 1, BatchField::token_ids, 10) == range(40, 10));
}

TEST_CASE("Conversations are not cut") {
  const TemporaryDirectory folder;
  TextFormat format;
  format.fine_tuning.emplace();
  const std::string line = R"({"prompt": "PP", "completion": "CC"})";
  const Dataset dataset({{folder.write("a.jsonl", line).string(), 1}}, format, 8, 256, false, 1, "/data/train");
  const BatchRecipe batch{.global = 1, .micro = 1, .sequence_length = 8};
  CHECK_THROWS_AS(StepSamples(dataset, batch, {.shape = {2, 4}}), std::invalid_argument);
  CHECK(StepSamples(dataset, batch, {.shape = {1, 8}}).weight(0, 0, 1) == 2);
}

}  // namespace llmtrain::test
