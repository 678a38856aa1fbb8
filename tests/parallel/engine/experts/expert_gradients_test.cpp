// SPDX-License-Identifier: Apache-2.0
// Gradients of models with experts on several ranks, element by element, and states that pass from layout to layout.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/tensor_slice.h"
#include "tests/parallel/engine/experts/expert_models.h"
#include "tests/parallel/engine/save_ranks.h"

namespace llmtrain::test {
namespace {

namespace fs = std::filesystem;

std::vector<RankCase> layouts() {
  return {{2, {experts(2)}},
          {2, {experts(2), parts(2)}},
          {4, {experts(4), zero(1)}},
          {8, {experts(8), zero(3), "pipeline.loops=3"}},
          {4, {experts(4), parts(8), "memory.recompute=\"selective\""}},
          // Several reductions per step, and no ranks to shard experts over.
          {4, {experts(4), zero(2), "pipeline.loops=3", "pipeline.schedule=\"interleaved\""}},
          {4, {experts(2), zero(2), "memory.recompute=\"full\""}},
          {8, {experts(2), zero(3), "parallel.zero_shard_ranks=4", "pipeline.loops=3"}},
          {4, {experts(2), "parallel.pipeline=2", "pipeline.balance=[1,2]", "pipeline.schedule=\"1f1b\""}},
          {4, {zero(3), "pipeline.loops=3"}}};
}

// Experts whose matrices data ranks split: among all copies and among some, with ZeRO on what is left of these.
std::vector<RankCase> sliced_experts() {
  return {{2, {sliced(2)}},
          {4, {experts(2), sliced(2), parts(2), "memory.recompute=\"selective\""}},
          {4, {experts(1), sliced(4), zero(3), "pipeline.loops=3"}},
          {8, {experts(2), sliced(2), zero(3), "pipeline.loops=3"}},
          {8, {experts(2), sliced(2), zero(2), "parallel.zero_shard_ranks=4", "pipeline.loops=3"}},
          {8, {experts(2), sliced(4), zero(1), "memory.recompute=\"full\""}},
          {8, {tensor(2), experts(2), sliced(4), "memory.recompute=\"computation\""}},
          {8, {context(2), sliced(2), zero(3), "parallel.pipeline=2", "pipeline.balance=[1,2]"}}};
}

using Numbers = std::map<std::string, std::vector<float>>;

// The fp32 tensors in a checkpoint whose names end so.
Numbers numbers_in(const fs::path& folder, std::string_view ending = "") {
  const CheckpointReader reader(folder);
  Numbers numbers;
  for (const LogicalTensor& tensor : reader.tensors()) {
    if (!tensor.name.ends_with(ending)) continue;
    std::vector<float>& values = numbers[tensor.name];
    values.resize(static_cast<std::size_t>(element_count(tensor.shape)));
    reader.read_box(tensor.name, {std::vector<std::int64_t>(tensor.shape.size()), tensor.shape},
                    std::as_writable_bytes(std::span(values)));
  }
  return numbers;
}

// After one step of AdamW without clipping a tenth of the gradients.
Numbers first_moments_in(const fs::path& folder) { return numbers_in(folder, ".m"); }

float largest_of(const std::vector<float>& values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// Within 1e-5 of the largest element; gradients that are zero in exact arithmetic (of a key's bias) within that of the
// largest gradient of all.
void check_same(const Numbers& got, const Numbers& expected) {
  REQUIRE(got.size() == expected.size());
  float all = 0;
  for (const auto& [name, values] : expected) all = std::max(all, largest_of(values));
  for (const auto& [name, values] : expected) {
    INFO(name);
    std::vector<float> differences = got.at(name);
    REQUIRE(differences.size() == values.size());
    for (std::size_t i = 0; i < values.size(); ++i) differences[i] -= values[i];
    const float own = largest_of(values);
    CHECK(largest_of(differences) <= 1e-5F * (own > 1e-5F * all ? own : all));
  }
}

// The gradients of a first step on each layout, and on one rank.
void check_gradients(const Overrides& model, const std::vector<RankCase>& layouts) {
  const TrainingSetting setting;
  const Overrides once = model + Overrides{"training.clip_norm=0"};
  train_and_save(setting, {1, once}, 1, setting.directory().path() / "one");
  const Numbers expected = first_moments_in(setting.directory().path() / "one" / "step-00000001");
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    const TemporaryDirectory folder;
    train_and_save(setting, {layout.ranks, once + layout.overrides}, 1, folder.path());
    check_same(first_moments_in(folder.path() / "step-00000001"), expected);
  }
}

}  // namespace

TEST_CASE("gradients of ranks that share experts are those of one rank, element by element", "[ranks]") {
  for (const Overrides& model : {dropless, dropping}) check_gradients(model, layouts());
}

TEST_CASE("so are those of data ranks that split each expert's matrices", "[ranks]") {
  for (const Overrides& model : {dropless, dropping}) check_gradients(model, sliced_experts());
}

TEST_CASE("so are those of ranks that share the tokens of a micro-batch, in capacity, priority, losses and jitter",
          "[ranks]") {
  for (const Overrides& model : {dropless, dropping, scored}) check_gradients(model, shared_micro_batches());
}

TEST_CASE("so are those of cosine routers", "[ranks]") {
  check_gradients(cosine, {{4, {experts(4), zero(1)}},
                           {4, {tensor(2), experts(2), "memory.recompute=\"computation\""}},
                           {8, {tensor(2), experts(4), zero(3), "pipeline.loops=3"}},
                           {8, {tensor(2), context(2), sliced(1), experts(8), parts(2)}},
                           {8, {context(2), experts(2), zero(1), "parallel.pipeline=2", "pipeline.balance=[1,2]"}},
                           {4, {experts(2), sliced(2)}}});
}

// Where all tokens are at two experts of one rank, the others' gradients are zero.
TEST_CASE("so are those of ranks without a token", "[ranks]") {
  check_gradients(dropless + Overrides{"model.moe.routing_zipf=100"}, {{4, {experts(4), zero(2), "pipeline.loops=3"}},
                                                                       {8, {experts(8), parts(2)}},
                                                                       {4, {tensor(2), sliced(1), experts(4)}}});
}

// Weights alone move, rows and weights, rows to half of the ranks, rows to all.
TEST_CASE("states keep their bits from ranks with whole experts to ranks with slices of them and back", "[ranks]") {
  const TrainingSetting setting;
  const std::vector<Overrides> layouts{
      {zero(3)}, {experts(2), zero(3)}, {experts(2), sliced(2), zero(3)}, {sliced(4), zero(3)}, {experts(2), zero(3)}};
  const TemporaryDirectory first;
  train_and_save(setting, {4, dropping + layouts.front()}, 2, first.path());
  const Numbers expected = numbers_in(first.path() / "step-00000002");
  fs::path from = first.path();
  std::vector<TemporaryDirectory> folders(layouts.size() - 1);
  for (std::size_t i = 1; i < layouts.size(); ++i) {
    INFO(in_words(4, layouts[i]));
    const fs::path to = folders[i - 1].path();
    LocalWorld(4).run([&](Communicator& communicator) {
      Trainer trainer(layout_of(setting.recipe(dropping + layouts[i]), communicator.size()), communicator, at::kCPU);
      trainer.resume(CheckpointReader(from / "step-00000002"));
      save(trainer, to);
    });
    CHECK(numbers_in(to / "step-00000002") == expected);
    from = to;
  }
}

}  // namespace llmtrain::test
