// SPDX-License-Identifier: Apache-2.0
// Stages on several ranks that read values of several earlier ones learn, evaluate and predict what one rank does.
#include <ATen/ATen.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "core/huggingface/tensor_dtype.h"
#include "parallel/engine/generation/decoder.h"
#include "parallel/engine/inference.h"
#include "parallel/engine/model_state.h"
#include "tests/parallel/engine/branching_layout.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

// Nothing is clipped, so that a step is a function of each parameter's gradient alone.
const Overrides eight_layers{"model.layers=8", "model.tie_embeddings=false", "batch.micro=2", "training.clip_norm=0"};

using States = std::map<std::string, at::Tensor>;

// Copies of the weights and moments that the rank has.
void add_states(const LocalModel& of, States& states) {
  const StateSlices state = state_slices(of);
  for (const TensorSlice& slice : state.slices) {
    void* memory = const_cast<void*>(slice.data);
    states[slice.name] = at::from_blob(memory, slice.shape, at::dtype(tensor_type(slice.dtype))).clone();
  }
}

struct Learned {
  Run run;
  double evaluated = 0;
  States states;
  at::Tensor logits;  // of a text, computed at once
  at::Tensor last;    // those of its last tokens, computed after the others
};

const std::vector<std::int64_t> text{108, 105, 110, 101, 32, 52};

at::Tensor last_logits(LocalModel& of) {
  Decoder decoder(of, 1, static_cast<std::int64_t>(text.size()));
  const std::span tokens(text);
  decoder.read(std::array{NewTokens{0, 0, tokens.first(3)}});
  return decoder.logits(std::array{NewTokens{0, 3, tokens.subspan(3)}}, Decoder::Rows::all);
}

Learned learn(const TrainingSetting& setting, const RankCase& layout, std::int64_t steps) {
  const auto laid_out = branching_layout(setting.recipe(eight_layers + layout.overrides), layout.ranks);
  std::vector<Run> runs(static_cast<std::size_t>(layout.ranks));
  Learned learned;
  std::mutex mutex;
  LocalWorld(layout.ranks).run([&](Communicator& communicator) {
    Trainer trainer(laid_out, communicator, at::kCPU, {}, FirstWeights::load, {}, make_summing_block);
    runs[static_cast<std::size_t>(communicator.rank())] = TrainingSetting::train(trainer, steps);
    const double evaluated = trainer.evaluate();
    const at::Tensor logits = logits_of(trainer.model(), at::tensor(text, at::kLong));
    const bool has_sequences = trainer.model().groups().context.ranks() == 1;
    const at::Tensor last = has_sequences ? last_logits(trainer.model()) : logits;
    const std::lock_guard lock(mutex);
    learned.evaluated = evaluated;
    if (logits.defined()) learned.logits = logits;
    if (last.defined()) learned.last = last;
    add_states(trainer.model(), learned.states);
  });
  for (const Run& run : runs) check_equal(run, runs.front());
  learned.run = runs.front();
  return learned;
}

void check_same(const Learned& got, const Learned& expected) {
  CHECK(got.run.losses == expected.run.losses);
  CHECK(got.evaluated == expected.evaluated);
  CHECK(got.logits.equal(expected.logits));
  CHECK(got.last.equal(expected.last));
  CHECK((got.last - got.logits.slice(0, 3)).abs().max().item<double>() < 0.02);
  REQUIRE(got.states.size() == expected.states.size());
  for (const auto& [name, state] : expected.states) {
    INFO(name);
    CHECK(got.states.at(name).equal(state));
  }
}

}  // namespace

TEST_CASE("no cut changes a bit of a step, whatever values cross it", "[ranks]") {
  const TrainingSetting setting;
  const Overrides compute = GENERATE(Overrides{}, Overrides{"precision.compute=\"bf16\""});
  const Learned expected = learn(setting, {1, compute}, 2);
  const std::vector<RankCase> layouts{
      {1, {"pipeline.loops=4"}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\""}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"interleaved\"", "pipeline.loops=4"}},
      {2,
       {"parallel.pipeline=2", "pipeline.schedule=\"breadth_first\"", "pipeline.loops=2", "memory.recompute=\"full\""}},
      {4, {"parallel.pipeline=4", "pipeline.schedule=\"gpipe\""}},
      {4, {"parallel.pipeline=4", "pipeline.schedule=\"1f1b\"", "memory.recompute=\"selective\""}},
      {4, {"parallel.pipeline=4", "pipeline.schedule=\"breadth_first\"", "pipeline.loops=2"}},
      {4, {"parallel.pipeline=4", "pipeline.schedule=\"interleaved\"", "pipeline.loops=2", "parallel.overlap=false"}},
  };
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    check_same(learn(setting, {layout.ranks, layout.overrides + compute}, 2), expected);
  }
}

TEST_CASE("so do ranks that share rows, features and states, but for rounding", "[ranks]") {
  const TrainingSetting setting;
  const Run expected = learn(setting, {1, {}}, 6).run;
  const std::vector<RankCase> layouts{
      {4, {"parallel.pipeline=2", "parallel.tensor=2", "parallel.sequence=false"}},
      {4, {"parallel.pipeline=2", "parallel.tensor=2", "parallel.sequence=true", "memory.recompute=\"computation\""}},
      {4, {"parallel.pipeline=2", "parallel.context=2"}},
      {4, {zero(3), "parallel.pipeline=2", "pipeline.schedule=\"breadth_first\"", "pipeline.loops=2"}},
      {2, {zero(3), "pipeline.loops=4"}},
  };
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    check_close(learn(setting, layout, 6).run, expected, 1e-5, 1e-4);
  }
}

TEST_CASE("layers that drop tokens pass values on, too", "[ranks]") {
  const TrainingSetting setting;
  const Overrides dropping{R"(training.token_dropping={"start": 8, "steps": 5, "multiple": 4})"};
  const Learned expected = learn(setting, {1, dropping}, 2);
  check_same(learn(setting, {4, dropping + Overrides{"parallel.pipeline=4"}}, 2), expected);
}

}  // namespace llmtrain::test
