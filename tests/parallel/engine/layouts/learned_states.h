// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/huggingface/tensor_dtype.h"
#include "parallel/engine/model_state.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {

using States = std::map<std::string, at::Tensor>;

struct Learned {
  Run run;
  double evaluated = 0;
  States states;  // of weights and moments, whole where a rank has them whole
};

inline void add_states(const LocalModel& of, States& states) {
  const StateSlices state = state_slices(of);
  for (const TensorSlice& slice : state.slices) {
    void* memory = const_cast<void*>(slice.data);
    states[slice.name] = at::from_blob(memory, slice.shape, at::dtype(tensor_type(slice.dtype))).clone();
  }
}

// What ranks that are threads learn, who must all report the same results.
inline Learned learn_states(const Recipe& recipe, int ranks, std::int64_t steps) {
  std::vector<Run> runs(static_cast<std::size_t>(ranks));
  Learned learned;
  std::mutex mutex;
  LocalWorld(ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout_of(recipe, ranks), communicator, at::kCPU);
    runs[static_cast<std::size_t>(communicator.rank())] = TrainingSetting::train(trainer, steps);
    const double evaluated = trainer.evaluate();
    const std::lock_guard lock(mutex);
    learned.evaluated = evaluated;
    add_states(trainer.model(), learned.states);
  });
  for (const Run& run : runs) check_equal(run, runs.front());
  learned.run = runs.front();
  return learned;
}

inline void check_same_bits(const Learned& got, const Learned& expected) {
  CHECK(got.run.losses == expected.run.losses);
  CHECK(got.evaluated == expected.evaluated);
  REQUIRE(got.states.size() == expected.states.size());
  for (const auto& [name, state] : expected.states) {
    INFO(name);
    CHECK(got.states.at(name).equal(state));
  }
}

// What one rank learns of `model` is what `layouts` learn, to the bit, and two data ranks learn the same bits at every
// ZeRO stage: those of one rank but for rounding, as one rank's products add a micro-batch's gradient to the one
// before, which oneDNN does block by block on processors without AVX-512, and two ranks add up whole ones. `learn`
// takes a RankCase.
template <class Learn>
Learned check_layouts(const Learn& learn, const Overrides& model, const std::vector<RankCase>& layouts) {
  const Learned expected = learn({1, model});
  CHECK(expected.run.losses.back() < expected.run.losses.front());
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides + model));
    check_same_bits(learn({layout.ranks, layout.overrides + model}), expected);
  }
  const Learned of_two = learn({2, Overrides{zero(0)} + model});
  check_close(of_two.run, expected.run, 1e-6, 1e-5);
  CHECK(of_two.evaluated == Approx(expected.evaluated).epsilon(1e-6));
  for (const int stage : {1, 2, 3}) {
    INFO("ZeRO-" << stage);
    const Learned got = learn({2, Overrides{zero(stage)} + model});
    CHECK(got.run.losses == of_two.run.losses);
    CHECK(got.evaluated == of_two.evaluated);
  }
  return expected;
}

}  // namespace llmtrain::test
