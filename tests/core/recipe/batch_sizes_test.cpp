// SPDX-License-Identifier: Apache-2.0
// Sizes of batches against Megatron-LM's rule, step by step.
#include "core/recipe/schedules/batch_sizes.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <initializer_list>

#include "core/recipe/step_shapes.h"
#include "tests/core/recipe/good_recipe.h"

namespace llmtrain::test {
namespace {

BatchRecipe growing(std::int64_t global, std::int64_t start, std::int64_t increment, std::int64_t samples) {
  return {.global = global,
          .micro = 1,
          .sequence_length = 1,
          .growth = BatchGrowthRecipe{.start = start, .increment = increment, .samples = samples}};
}

// RampupBatchsizeNumMicroBatchesCalculator of Megatron-LM: ⌊consumed ÷ (samples ÷ increments)⌋ increments are done, in
// whole numbers.
std::int64_t megatron_size(const BatchRecipe& batch, std::int64_t consumed) {
  const auto& [start, increment, samples] = batch.growth.value();
  if (consumed > samples) return batch.global;
  const std::int64_t increments = (batch.global - start) / increment;
  return start + consumed * increments / samples * increment;
}

}  // namespace

TEST_CASE("batches grow as Megatron-LM's do", "[recipe][batch]") {
  for (const BatchRecipe& batch :
       {growing(8, 2, 2, 12), growing(1024, 16, 8, 300'000), growing(64, 8, 8, 10), growing(64, 32, 32, 1),
        growing(1536, 32, 32, 5000), growing(7, 1, 3, 1000), growing(100, 1, 1, 99), growing(100, 1, 1, 101)}) {
    INFO("to " << batch.global << " over " << batch.growth->samples);
    const BatchSizes sizes(batch);
    std::int64_t consumed = 0;
    for (std::int64_t step = 0; step < 3000; ++step) {
      INFO("step " << step);
      const std::int64_t size = megatron_size(batch, consumed);
      REQUIRE(sizes.size_of(step) == size);
      REQUIRE(sizes.samples_before(step) == consumed);
      const auto next = sizes.next_change(step);
      REQUIRE(next.has_value() == (size < batch.global));
      if (next) REQUIRE((*next > step && sizes.size_of(*next) > size && sizes.size_of(*next - 1) == size));
      // The last step that is needed for any of these samples is this one.
      REQUIRE(sizes.steps_for(consumed) == step);
      REQUIRE(sizes.steps_for(consumed + 1) == step + 1);
      REQUIRE(sizes.steps_for(consumed + size) == step + 1);
      consumed += size;
    }
  }
}

TEST_CASE("what divides the common batch divides all of its sizes", "[recipe][batch]") {
  CHECK(common_batch({.global = 12, .micro = 1, .sequence_length = 1}) == 12);
  CHECK(common_batch(growing(24, 8, 16, 100)) == 8);
  CHECK(common_batch(growing(24, 8, 4, 100)) == 4);
  CHECK(common_batch(growing(24, 9, 15, 100)) == 3);
  CHECK(BatchSizes({.global = 12, .micro = 1, .sequence_length = 1}).samples_before(5) == 60);
}

TEST_CASE("a smaller batch is a smaller part of a whole step, and changes beside the lengths", "[recipe][batch]") {
  Json json = small_recipe();
  json["batch"]["growth"] = {{"start", 4}, {"increment", 2}, {"samples", 16}};
  json["data"]["curriculum"]["sequence_length"] = {{"start", 64}, {"steps", 4}, {"multiple", 64}};
  const StepShapes shapes(parse(json));
  // Sizes 4, 4, 6 (from 8 samples on), 6, then 8 (from 16 on); lengths 64 until step 3, then 128.
  const StepShape expected[] = {{2, 64, 0, 4}, {2, 64, 0, 4}, {2, 64, 0, 6}, {2, 128, 0, 6}, {2, 128, 0, 8}};
  double before = 0;
  for (std::int64_t step = 0; step < 5; ++step) {
    INFO("step " << step);
    CHECK(shapes.at(step) == expected[step]);
    CHECK(shapes.whole_steps_before(step) == Approx(before));
    before += static_cast<double>(expected[step].global_batch * expected[step].sequence_length) / (8 * 128);
  }
  CHECK(shapes.runs().size() == 4);
}

}  // namespace llmtrain::test
