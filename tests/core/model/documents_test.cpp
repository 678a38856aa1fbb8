// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

using kernels::PositionRun;

// In float64 even gradients that are zero in exact arithmetic agree.
const double tolerance = tolerance_of(at::kDouble);

// Two sequences of seven tokens: documents of 3, 4, 5 and 2.
const std::vector<PositionRun> documents{{0, 3}, {3, 4}, {7, 5}, {12, 2}};

PassInput packed(const ModelRecipe& recipe) {
  PassInput micro = random_input(recipe, 1, 2, 7);
  micro.batch.sequences().documents = documents;
  std::vector<at::Tensor> positions;
  for (const PositionRun& document : documents) positions.push_back(at::arange(document.length, at::kLong));
  micro.batch.sequences().positions = at::cat(positions);
  return micro;
}

PassInput alone(const PassInput& micro, const PositionRun& document) {
  PassInput one = micro;
  one.batch.field(BatchField::token_ids) = tokens_of(micro).narrow(0, document.begin, document.length);
  one.batch.field(BatchField::targets) = targets_of(micro).narrow(0, document.begin, document.length);
  one.batch.rows = {{.count = 1, .length = document.length}};
  return one;
}

}  // namespace

TEST_CASE("packed documents have the losses and gradients that each has alone") {
  for (const NamedModel& named : all_models()) {
    for (const AttentionKernel attention : {AttentionKernel::flash, AttentionKernel::math}) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        INFO(named.name << ", attention " << static_cast<int>(attention) << ", recompute "
                        << static_cast<int>(recompute));
        SmallModel model(named.model, {.attention = attention, .recompute = recompute, .type = at::kDouble});
        const PassInput micro = packed(named.model);
        const at::Tensor losses = model.learn(micro);
        const NamedTensors gradients = model.take_gradients();
        for (const PositionRun& document : documents)
          CHECK(distance(model.learn(alone(micro, document)), losses.narrow(0, document.begin, document.length)) <
                tolerance);
        check_gradients(gradients, model.take_gradients(), tolerance);
      }
    }
  }
}

TEST_CASE("rows that do not count have no loss and no gradient") {
  for (const NamedModel& named : all_models()) {
    INFO(named.name);
    SmallModel model(named.model, {.type = at::kDouble});
    PassInput micro = random_input(named.model);
    const at::Tensor losses = model.learn(micro);
    const NamedTensors whole = model.take_gradients();
    const at::Tensor counts = at::arange(21).remainder(3).ne(1);
    // Each row counts in one of the two passes, so that their gradients are those of all rows.
    at::Tensor sum = at::zeros_like(losses);
    for (const at::Tensor& part : {counts, counts.logical_not()}) {
      micro.batch.field(BatchField::counted_rows) = part.nonzero().squeeze(1);
      const at::Tensor counted = model.learn(micro);
      CHECK(counted.masked_select(part.logical_not()).eq(0).all().item<bool>());
      sum.add_(counted);
    }
    CHECK(distance(sum, losses) < tolerance);
    check_gradients(model.take_gradients(), whole, tolerance);
    const at::Tensor evaluated = model.forward(micro, PassMode::evaluation);
    CHECK(distance(evaluated, sum.where(counts.logical_not(), at::zeros({}, sum.options()))) < tolerance);
  }
}

TEST_CASE("a micro-batch in which nothing counts has the gradient 0") {
  SmallModel model(llama_model());
  PassInput micro = random_input(llama_model());
  micro.batch.field(BatchField::counted_rows) = at::empty({0}, at::kLong);
  CHECK(model.learn(micro).eq(0).all().item<bool>());
  for (const auto& [name, gradient] : model.take_gradients()) {
    INFO(name);
    CHECK(gradient.eq(0).all().item<bool>());
  }
}

}  // namespace llmtrain::test
