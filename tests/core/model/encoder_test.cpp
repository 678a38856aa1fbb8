// SPDX-License-Identifier: Apache-2.0
// What masked_tokens_test.py does not ask of a model whose blocks are bodies.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

ModelRecipe encoder() {
  ModelRecipe model = gpt2_model();
  model.architecture = Architecture::bert;
  model.activation = Activation::gelu;
  return model;
}

at::Tensor numbers(const std::vector<std::int64_t>& of) { return at::tensor(of, at::kLong); }

}  // namespace

TEST_CASE("of a body with a loss rows count, or are predicted, that are asked for") {
  PassInput input = random_input(encoder());
  SmallModel model(encoder());
  const at::Tensor all = model.forward(input, PassMode::evaluation);
  const at::Tensor logits = model.forward(input, PassMode::prediction);
  CHECK(logits.sizes() == at::IntArrayRef{21, encoder().vocab_size});
  const at::Tensor rows = numbers({2, 9, 20});
  const at::Tensor expected = -at::log_softmax(logits, 1).gather(1, targets_of(input).unsqueeze(1)).squeeze(1);
  CHECK(distance(all, expected) < 1e-6);
  input.batch.field(BatchField::counted_rows) = rows;
  // Which nobody reads.
  input.batch.field(BatchField::targets).index_fill_(0, numbers({0, 1, 19}), 1 << 20);
  const at::Tensor counted = model.forward(input, PassMode::evaluation);
  CHECK(counted.index_select(0, rows).equal(all.index_select(0, rows)));
  CHECK(counted.sum().item<double>() == Approx(all.index_select(0, rows).sum().item<double>()));
  CHECK(model.forward(input, PassMode::prediction).equal(logits.index_select(0, rows)));
}

TEST_CASE("positions count from the start of a document, which no other one's tokens change") {
  PassInput input = random_input(encoder(), 1, 1, 7);
  SmallModel model(encoder());
  const at::Tensor alone = model.forward(input, PassMode::prediction);
  PassInput packed = random_input(encoder(), 2, 2, 11);
  at::Tensor& tokens = packed.batch.field(BatchField::token_ids);
  tokens.slice(0, 4, 11).copy_(tokens_of(input));
  packed.batch.sequences().documents = {{0, 4}, {4, 7}, {11, 11}};
  packed.batch.sequences().positions = numbers({0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  CHECK(distance(model.forward(packed, PassMode::prediction).slice(0, 4, 11), alone) < 1e-6);
}

TEST_CASE("recompute changes no bit of what a model of bodies learns") {
  ModelRecipe recipe = encoder();
  recipe.dropout = 0.2;
  const PassInput input = random_input(recipe);
  SmallModel keeping(recipe);
  const at::Tensor losses = keeping.learn(input).clone();
  const NamedTensors gradients = keeping.take_gradients();
  for (const Recompute recompute : {Recompute::selective, Recompute::computation, Recompute::full}) {
    SmallModel again(recipe, {.recompute = recompute});
    CHECK(again.learn(input).equal(losses));
    check_same_bits(again.take_gradients(), gradients);
  }
}

}  // namespace llmtrain::test
