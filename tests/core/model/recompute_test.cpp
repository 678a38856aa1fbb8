// SPDX-License-Identifier: Apache-2.0
// What recompute makes again is what it did not keep, to the last bit.
#include <catch2/catch.hpp>

#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

struct Pass {
  at::Tensor losses;
  NamedTensors gradients;
};

Pass learn(const ModelRecipe& recipe, const SmallModel::Options& options) {
  SmallModel model(recipe, options);
  at::Tensor losses = model.learn(random_input(recipe));
  return {losses, model.take_gradients()};
}

}  // namespace

TEST_CASE("recompute changes no bit of losses and gradients") {
  for (const NamedModel& named : all_models()) {
    for (const double dropout : {0.0, 0.3}) {
      for (const AttentionKernel attention : {AttentionKernel::flash, AttentionKernel::math}) {
        ModelRecipe recipe = named.model;
        recipe.dropout = dropout;
        const Pass kept = learn(recipe, {attention, Recompute::none});
        for (const Recompute recompute : {Recompute::selective, Recompute::computation, Recompute::full}) {
          INFO(named.name << ", dropout " << dropout << ", attention " << static_cast<int>(attention) << ", recompute "
                          << static_cast<int>(recompute));
          const Pass again = learn(recipe, {attention, recompute});
          CHECK(again.losses.equal(kept.losses));
          check_same_bits(again.gradients, kept.gradients);
        }
      }
    }
  }
}

TEST_CASE("the same passes give the same bits twice") {
  for (const NamedModel& named : all_models()) {
    INFO(named.name);
    const Pass first = learn(named.model, {}), second = learn(named.model, {});
    CHECK(second.losses.equal(first.losses));
    check_same_bits(second.gradients, first.gradients);
  }
}

}  // namespace llmtrain::test
