// SPDX-License-Identifier: Apache-2.0
// What every rank reads, against the bytes of the text itself.
#include "parallel/engine/data/batch_loader.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "tests/parallel/engine/training_setting.h"

namespace llmtrain::test {
namespace {

constexpr std::int64_t sequence_length = 24;

// In the order of the file: sample n starts with byte n · sequence_length.
Dataset samples_in_order(const Recipe& recipe) {
  return Dataset(recipe.data.train, {recipe.data.tokenizer}, sequence_length, recipe.model.vocab_size, false, 0,
                 "/data/train");
}

std::vector<PassInput> load_step(const Dataset& dataset, const Recipe& recipe, const BatchPlace& place,
                                 const DataRank& rank) {
  const std::array terms{LossTerm{.name = "loss"}};
  return load_batch(StepSamples(dataset, recipe.batch, place), terms, recipe, place, rank, at::kCPU);
}

// Bytes of the text at these positions of `count` samples from number `first` on, each `shift` bytes later.
std::vector<std::int64_t> bytes_at(std::int64_t first, std::int64_t count, const std::vector<std::int64_t>& positions,
                                   std::int64_t shift) {
  const std::string text = training_text();
  std::vector<std::int64_t> bytes;
  for (std::int64_t sample = first; sample < first + count; ++sample)
    for (const std::int64_t position : positions)
      bytes.push_back(
          static_cast<unsigned char>(text.at(static_cast<std::size_t>(sample * sequence_length + position + shift))));
  return bytes;
}

std::vector<std::int64_t> values(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.data_ptr<std::int64_t>(), flat.data_ptr<std::int64_t>() + flat.numel()};
}

std::vector<std::int64_t> range(std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> positions;
  for (std::int64_t i = begin; i < end; ++i) positions.push_back(i);
  return positions;
}

// Images whose every pixel is their number. A reader waits until another one reads, too, or for a while, and the first
// of each pair takes longer than the second, so that threads end in another order than they began.
class SlowImages final : public SampleSource {
 public:
  std::span<const SampleField> fields() const override { return fields_; }
  std::span<const SampleSequence> sequences() const override { return {&sequence_, 1}; }
  std::int64_t samples() const override { return 64; }
  void read(std::int64_t number, const FieldMemory& into) const override {
    if (number >= broken) throw Error(ExitCode::bad_data, "image " + std::to_string(number));
    const auto label = into.values<std::int64_t>(BatchField::label);
    if (!label.empty()) label[0] = number;
    const auto pixels = into.values<float>(BatchField::pixels);
    if (pixels.empty()) return;
    const int readers = ++readers_;
    most_readers = std::max(most_readers.load(), readers);
    while (waits && most_readers < 2 && std::chrono::steady_clock::now() < end_) std::this_thread::yield();
    if (number % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::ranges::fill(pixels, static_cast<float>(number));
    --readers_;
  }
  double weight(std::size_t, std::int64_t, std::int64_t count) const override { return static_cast<double>(count); }

  std::int64_t broken = 64;  // the first that cannot be read
  bool waits = false;
  mutable std::atomic<int> most_readers{0};

 private:
  mutable std::atomic<int> readers_{0};
  const std::chrono::steady_clock::time_point end_ = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  SampleSequence sequence_{.length = 4};
  std::vector<SampleField> fields_{{BatchField::pixels, ElementType::float32, {3, 2, 2}, {}},
                                   {BatchField::label, ElementType::int64, {}, {}}};
};

// LibTorch's threads, as long as it lives.
class Threads {
 public:
  explicit Threads(int count) : before_(at::get_num_threads()) { at::set_num_threads(count); }
  ~Threads() { at::set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace

TEST_CASE("threads read the images of a batch, each to its own place", "[batch]") {
  for (const int count : {1, 2, 3}) {
    INFO(count << " threads");
    const Threads threads(count);
    SlowImages images;
    images.waits = count > 1;
    const Batch batch = load_samples(images, {0, 1, {}}, 7, 13, at::kCPU);
    CHECK((images.most_readers > 1) == (count > 1));
    const at::Tensor numbers = at::arange(7, 20, at::kLong);
    CHECK(at::equal(batch.field(BatchField::label), numbers));
    CHECK(at::equal(batch.field(BatchField::pixels), numbers.to(at::kFloat).view({13, 1, 1, 1}).expand({13, 3, 2, 2})));
  }
}

TEST_CASE("of images that cannot be read the first is named, whatever the threads", "[batch]") {
  for (const int count : {1, 2, 3}) {
    INFO(count << " threads");
    const Threads threads(count);
    SlowImages images;
    images.broken = 9;
    CHECK_THROWS_WITH(load_samples(images, {0, 1, {}}, 4, 16, at::kCPU), "image 9");
  }
}

TEST_CASE("a target is the token that follows in the text", "[batch]") {
  const TrainingSetting setting;
  const Batch batch = load_samples(samples_in_order(setting.recipe({})), {0, 1, {}}, 5, 3, at::kCPU);
  CHECK(values(batch.field(BatchField::token_ids)) == bytes_at(5, 3, range(0, sequence_length), 0));
  CHECK(values(batch.field(BatchField::targets)) == bytes_at(5, 3, range(0, sequence_length), 1));
  CHECK(batch.sequences().count == 3);
  CHECK(batch.sequences().length == sequence_length);
}

// The last token of a run of positions has its target in a run of another rank.
TEST_CASE("a context rank reads its positions and the tokens that follow each of them", "[batch]") {
  const TrainingSetting setting;
  const kernels::SequencePart part{sequence_length, {{6, 6}, {18, 6}}};
  const Batch batch = load_samples(samples_in_order(setting.recipe({})), {0, 1, part}, 2, 2, at::kCPU);
  std::vector<std::int64_t> positions = range(6, 12);
  for (const std::int64_t position : range(18, 24)) positions.push_back(position);
  CHECK(values(batch.field(BatchField::token_ids)) == bytes_at(2, 2, positions, 0));
  CHECK(values(batch.field(BatchField::targets)) == bytes_at(2, 2, positions, 1));
  CHECK(batch.sequences().length == 12);
}

TEST_CASE("the ranks' micro-batches are the global batch, each sample once and in order", "[batch]") {
  const TrainingSetting setting;
  const Recipe recipe = setting.recipe({"batch.global=12", "batch.micro=2", "seed=5"});
  const Dataset dataset = samples_in_order(recipe);
  std::int64_t next = 0;
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    const auto micros =
        load_step(dataset, recipe, {7, 84, {2, sequence_length, 0, recipe.batch.global}}, {rank, 3, {}});
    REQUIRE(micros.size() == 2);
    for (const PassInput& micro : micros) {
      INFO("samples of the batch from " << next << " on");
      CHECK(values(micro.batch.field(BatchField::token_ids)) == bytes_at(84 + next, 2, range(0, sequence_length), 0));
      CHECK(micro.context.first_sample == next);
      CHECK(micro.context.step == 7);
      CHECK(micro.context.seed == 5);
      CHECK(micro.context.loss_gradients == std::vector<double>{1.0 / (12 * sequence_length)});
      CHECK(micro.context.batch_rows == 12 * sequence_length);
      next += 2;
    }
  }
  CHECK(next == 12);
}

// Samples of 24 tokens in micro-batches of three: 20 begin each, or seven sequences of ten fill them, two from the
// start of each sample and one from its end.
TEST_CASE("samples are cut to the step's sequences, each with the tokens that follow in the text", "[batch]") {
  const TrainingSetting setting;
  const Recipe recipe = setting.recipe({"batch.global=6", "batch.micro=3"});
  const Dataset dataset = samples_in_order(recipe);
  const auto shorter = load_step(dataset, recipe, {0, 12, {3, 20, 0, recipe.batch.global}}, {0, 1, {}});
  REQUIRE(shorter.size() == 2);
  for (const std::int64_t shift : {0, 1}) {
    const at::Tensor& read = shorter[1].batch.field(shift == 0 ? BatchField::token_ids : BatchField::targets);
    CHECK(values(read) == bytes_at(15, 3, range(0, 20), shift));
  }
  CHECK(shorter[1].context.first_sample == 3);
  CHECK(shorter[1].context.loss_gradients == std::vector<double>{1.0 / (6 * 20)});
  CHECK(shorter[1].context.batch_rows == 6 * 20);

  const auto more = load_step(dataset, recipe, {0, 12, {7, 10, 0, recipe.batch.global}}, {0, 1, {}});
  REQUIRE(more.size() == 2);
  for (const std::int64_t shift : {0, 1}) {
    auto expected = bytes_at(12, 3, range(0, 20), shift);
    for (const std::int64_t byte : bytes_at(12, 1, range(14, 24), shift)) expected.push_back(byte);
    CHECK(values(more[0].batch.field(shift == 0 ? BatchField::token_ids : BatchField::targets)) == expected);
  }
  CHECK(more[0].batch.sequences().count == 7);
  CHECK(more[0].batch.sequences().length == 10);
  CHECK(more[1].context.first_sample == 7);
  CHECK(more[1].context.loss_gradients == std::vector<double>{1.0 / (14 * 10)});
  CHECK(more[1].context.batch_rows == 14 * 10);
}

// The text's lines have 20 and more bytes; the 24 of a sample hold the end of one or two.
TEST_CASE("documents end with their mark or the sequence", "[batch]") {
  const TrainingSetting setting;
  const Recipe recipe = setting.recipe({R"(data.document_mask={"end_of_text": 10})"});
  const Dataset dataset(recipe.data.train, text_format(recipe), sequence_length, 256, false, 0, "/data/train");
  // One line after another, of which no document reaches over a multiple of 24.
  std::vector<kernels::PositionRun> expected;
  std::vector<std::int64_t> positions;
  const std::string text = training_text();
  for (std::int64_t i = 0; i < 5 * sequence_length; ++i) {
    const bool begins = i % sequence_length == 0 || text.at(static_cast<std::size_t>(i) - 1) == '\n';
    if (begins) expected.push_back({i, 0});
    positions.push_back(expected.back().length++);
  }
  REQUIRE(expected.size() > 8);
  const Batch whole = load_samples(dataset, {0, 1, {}}, 0, 5, at::kCPU);
  CHECK((whole.sequences().documents == expected));
  CHECK(values(whole.sequences().positions) == positions);
  // A context rank has the documents of all, and the positions of its own tokens.
  const kernels::SequencePart part{sequence_length, {{6, 6}, {18, 6}}};
  const Batch shared = load_samples(dataset, {0, 1, part}, 0, 5, at::kCPU);
  CHECK((shared.sequences().documents == expected));
  const at::Tensor all = whole.sequences().positions.view({5, sequence_length});
  CHECK(values(shared.sequences().positions) == values(at::cat({all.slice(1, 6, 12), all.slice(1, 18, 24)}, 1)));
  // The middle of a pipeline reads no tokens and knows the documents, too.
  const Batch middle = load_samples(dataset, {0, 1, part, {}}, 0, 5, at::kCPU);
  CHECK((middle.sequences().documents == expected));
  CHECK(middle.sequences().rows() == 5 * 12);
}

TEST_CASE("a rank loads the fields that its blocks read", "[batch]") {
  const TrainingSetting setting;
  const Recipe recipe = setting.recipe({});
  const Dataset dataset = samples_in_order(recipe);
  std::vector<BatchField> sampled;
  for (const SampleField& field : dataset.fields()) sampled.push_back(field.name);
  CHECK((sampled == sample_fields(recipe.data)));
  FieldSet outputs{};
  outputs[index_of(BatchField::targets)] = true;
  const Batch last = load_samples(dataset, {0, 1, {}, outputs}, 5, 3, at::kCPU);
  CHECK_FALSE(last.field(BatchField::token_ids).defined());
  CHECK(values(last.field(BatchField::targets)) == bytes_at(5, 3, range(0, sequence_length), 1));
  CHECK(last.sequences().rows() == 3 * sequence_length);
}

}  // namespace llmtrain::test
