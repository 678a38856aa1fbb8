// SPDX-License-Identifier: Apache-2.0
// Several micro-batches on their way through one stage, and several sequences in one of them.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <vector>

#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

std::vector<PassInput> micro_batches(const ModelRecipe& recipe) {
  std::vector<PassInput> all;
  for (std::uint64_t i = 0; i < 3; ++i) {
    all.push_back(random_input(recipe, 10 + i));
    all.back().context.first_sample = static_cast<std::int64_t>(3 * i);
  }
  return all;
}

NamedTensors sum(const std::vector<NamedTensors>& all) {
  NamedTensors total;
  for (const NamedTensors& each : all)
    for (const auto& [name, gradient] : each)
      total[name] = total.count(name) != 0 ? total[name] + gradient : gradient.clone();
  return total;
}

// Whether nothing differs but rows of this sequence from this position on.
bool rows_are_alike(const at::Tensor& a, const at::Tensor& b, const PassInput& micro, std::int64_t sequence,
                    std::int64_t position) {
  at::Tensor alike = by_sequence(a.eq(b), micro);
  alike.select(0, sequence).slice(0, position).fill_(true);
  return alike.all().item<bool>();
}

PassInput with_other_token(const ModelRecipe& recipe, const PassInput& micro, std::int64_t row) {
  PassInput changed = micro;
  changed.batch.field(BatchField::token_ids) = tokens_of(micro).clone();
  tokens_of(changed)[row] = (tokens_of(micro)[row].item<std::int64_t>() + 1) % recipe.vocab_size;
  return changed;
}

}  // namespace

TEST_CASE("backwards run in any order after their forwards") {
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    for (const double dropout : {0.0, 0.3}) {
      ModelRecipe recipe = mixed_model();
      recipe.dropout = dropout;
      const std::vector<PassInput> micros = micro_batches(recipe);
      SmallModel model(recipe, {.recompute = recompute});
      std::vector<NamedTensors> alone;
      for (const PassInput& micro : micros) {
        model.learn(micro);
        alone.push_back(model.take_gradients());
      }
      for (std::size_t i = 0; i < 3; ++i) model.forward(micros[i], PassMode::training, static_cast<std::int64_t>(i));
      for (const std::size_t i : {1, 2, 0})
        model.stage().backward({}, static_cast<std::int64_t>(i), micros[i].batch, micros[i].context);
      INFO("recompute " << static_cast<int>(recompute) << ", dropout " << dropout);
      check_gradients(model.take_gradients(), sum(alone), 2e-6);
    }
  }
}

TEST_CASE("layers give each micro-batch its own gradients, bit by bit, whatever ran in between") {
  const ModelRecipe recipe = mixed_model();
  SmallModel model(recipe, {.blocks = {1, 2}});
  const std::vector<PassInput> micros = micro_batches(recipe);
  const auto activation = [&](std::size_t i, double phase) {
    return wave(21, recipe.hidden_size, phase + 0.1 * static_cast<double>(i));
  };
  std::vector<NamedTensors> alone;
  std::vector<at::Tensor> inputs;
  for (std::size_t i = 0; i < 3; ++i) {
    model.forward_of(activation(i, 0), micros[i]);
    inputs.push_back(model.stage().backward({activation(i, 1)}, 0, micros[i].batch, micros[i].context).front());
    alone.push_back(model.take_gradients());
  }
  for (std::size_t i = 0; i < 3; ++i) model.forward_of(activation(i, 0), micros[i], static_cast<std::int64_t>(i));
  for (const std::size_t i : {2, 0, 1}) {
    INFO("micro-batch " << i);
    CHECK(model.stage()
              .backward({activation(i, 1)}, static_cast<std::int64_t>(i), micros[i].batch, micros[i].context)
              .front()
              .equal(inputs[i]));
    check_same_bits(model.take_gradients(), alone[i]);
  }
}

TEST_CASE("the first write of a gradient overwrites, the second adds") {
  for (const NamedModel& named : all_models()) {
    INFO(named.name);
    const std::vector<PassInput> micros = micro_batches(named.model);
    SmallModel model(named.model, {.type = at::kDouble});
    std::vector<NamedTensors> alone;
    for (const PassInput& micro : micros) {
      model.learn(micro);
      alone.push_back(model.take_gradients());
      check_gradients(alone.back(), alone.back(), 0);  // finite: nothing of the memory's NaN is left
    }
    for (const PassInput& micro : micros) model.learn(micro);
    check_gradients(model.take_gradients(), sum(alone), 1e-12);
  }
}

TEST_CASE("a step that was dropped leaves nothing in the next one's gradients") {
  SmallModel model(qwen_model());
  const std::vector<PassInput> micros = micro_batches(qwen_model());
  model.learn(micros[0]);
  const NamedTensors expected = model.take_gradients();
  model.learn(micros[1]);
  model.store().drop_gradients();
  model.learn(micros[0]);
  check_same_bits(model.take_gradients(), expected);
}

TEST_CASE("what no pass wrote is zero") {
  SmallModel model(gpt2_model(), {.blocks = {2}});
  const PassInput micro = random_input(gpt2_model());
  const at::Tensor x = at::ones({21, gpt2_model().hidden_size});
  model.forward_of(x.clone(), micro);
  model.stage().backward({x.clone()}, 0, micro.batch, micro.context);
  for (const auto& [name, gradient] : model.take_gradients()) {
    INFO(name);
    CHECK(gradient.isfinite().all().item<bool>());
    if (name.rfind("layers.1.", 0) != 0) CHECK(gradient.eq(0).all().item<bool>());
  }
}

TEST_CASE("a token is seen from its own position on, and by its own sequence alone") {
  for (const NamedModel& named : all_models()) {
    const PassInput micro = random_input(named.model);
    const std::int64_t length = micro.batch.sequences().length;
    for (const AttentionKernel attention : {AttentionKernel::flash, AttentionKernel::math}) {
      SmallModel model(named.model, {.attention = attention});
      const at::Tensor losses = model.forward(micro);
      for (std::int64_t row = 0; row < micro.batch.sequences().rows(); ++row) {
        INFO(named.name << ", attention " << static_cast<int>(attention) << ", row " << row);
        const at::Tensor changed = model.forward(with_other_token(named.model, micro, row));
        const std::int64_t sequence = row / length, position = row % length;
        CHECK(rows_are_alike(changed, losses, micro, sequence, position));
        // From there on all rows change: attention does see it.
        CHECK(changed.ne(losses).narrow(0, row, length - position).all().item<bool>());
      }
    }
  }
}

TEST_CASE("a sequence gives the same losses alone as among others") {
  for (const NamedModel& named : all_models()) {
    const PassInput micro = random_input(named.model);
    const std::int64_t length = micro.batch.sequences().length;
    SmallModel model(named.model);
    const at::Tensor losses = model.forward(micro);
    for (std::int64_t i = 0; i < micro.batch.sequences().count; ++i) {
      INFO(named.name << ", sequence " << i);
      PassInput alone = micro;
      alone.batch.rows = {{.count = 1, .length = length}};
      alone.batch.field(BatchField::token_ids) = tokens_of(micro).narrow(0, i * length, length);
      alone.batch.field(BatchField::targets) = targets_of(micro).narrow(0, i * length, length);
      CHECK(distance(model.forward(alone), losses.narrow(0, i * length, length)) < 1e-5);
    }
  }
}

// More logits than one chunk has memory for: the second chunk adds where the first one wrote.
TEST_CASE("a head makes logits chunk by chunk as it does all at once") {
  ModelRecipe recipe = llama_model();
  recipe.hidden_size = 2;
  recipe.vocab_size = 1 << 20;
  SmallModel model(recipe, {.blocks = {3}});
  PassInput whole = random_input(recipe, 3, 1, 40);
  const at::Tensor x = wave(40, 2, 0);
  const at::Tensor losses = model.forward_of(x, whole);
  const at::Tensor dx = model.stage().backward({}, 0, whole.batch, whole.context).front();
  const NamedTensors gradients = model.take_gradients();
  std::vector<NamedTensors> halves;
  for (std::int64_t part = 0; part < 2; ++part) {
    PassInput half = whole;
    half.batch.field(BatchField::targets) = targets_of(whole).narrow(0, 20 * part, 20);
    const at::Tensor half_losses = model.forward_of(x.narrow(0, 20 * part, 20), half);
    CHECK(distance(losses.narrow(0, 20 * part, 20), half_losses) < 1e-6);
    CHECK(distance(dx.narrow(0, 20 * part, 20), model.stage().backward({}, 0, half.batch, half.context).front()) <
          1e-5);
    halves.push_back(model.take_gradients());
  }
  check_gradients(gradients, sum(halves), 1e-5);
}

}  // namespace llmtrain::test
