// SPDX-License-Identifier: Apache-2.0
// Several micro-batches on their way through one stage, and several sequences in one of them.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <vector>

#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

std::vector<MicroBatch> micro_batches(const ModelRecipe& recipe) {
  std::vector<MicroBatch> all;
  for (std::uint64_t i = 0; i < 3; ++i) {
    all.push_back(random_micro_batch(recipe, 10 + i));
    all.back().first_sample = static_cast<std::int64_t>(3 * i);
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
bool rows_are_alike(const at::Tensor& a, const at::Tensor& b, const MicroBatch& micro, std::int64_t sequence,
                    std::int64_t position) {
  at::Tensor alike = a.eq(b).view({micro.batch, micro.sequence});
  alike.select(0, sequence).slice(0, position).fill_(true);
  return alike.all().item<bool>();
}

MicroBatch with_other_token(const ModelRecipe& recipe, const MicroBatch& micro, std::int64_t row) {
  MicroBatch changed = micro;
  changed.tokens = micro.tokens.clone();
  changed.tokens[row] = (micro.tokens[row].item<std::int64_t>() + 1) % recipe.vocab_size;
  return changed;
}

}  // namespace

TEST_CASE("backwards run in any order after their forwards") {
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    for (const double dropout : {0.0, 0.3}) {
      ModelRecipe recipe = mixed_model();
      recipe.dropout = dropout;
      const std::vector<MicroBatch> micros = micro_batches(recipe);
      SmallModel model(recipe, {.recompute = recompute});
      std::vector<NamedTensors> alone;
      for (const MicroBatch& micro : micros) {
        model.learn(micro);
        alone.push_back(model.take_gradients());
      }
      for (std::size_t i = 0; i < 3; ++i) model.forward(micros[i], ForwardMode::training, static_cast<std::int64_t>(i));
      for (const std::size_t i : {1, 2, 0}) model.stage().backward({}, static_cast<std::int64_t>(i), micros[i]);
      INFO("recompute " << static_cast<int>(recompute) << ", dropout " << dropout);
      check_gradients(model.take_gradients(), sum(alone), 2e-6);
    }
  }
}

TEST_CASE("layers give each micro-batch its own gradients, bit by bit, whatever ran in between") {
  const ModelRecipe recipe = mixed_model();
  SmallModel model(recipe, {.blocks = {1, 2}});
  const std::vector<MicroBatch> micros = micro_batches(recipe);
  const auto activation = [&](std::size_t i, double phase) {
    return wave(21, recipe.hidden_size, phase + 0.1 * static_cast<double>(i));
  };
  std::vector<NamedTensors> alone;
  std::vector<at::Tensor> inputs;
  for (std::size_t i = 0; i < 3; ++i) {
    model.stage().forward(activation(i, 0), 0, micros[i], ForwardMode::training);
    inputs.push_back(model.stage().backward(activation(i, 1), 0, micros[i]));
    alone.push_back(model.take_gradients());
  }
  for (std::size_t i = 0; i < 3; ++i)
    model.stage().forward(activation(i, 0), static_cast<std::int64_t>(i), micros[i], ForwardMode::training);
  for (const std::size_t i : {2, 0, 1}) {
    INFO("micro-batch " << i);
    CHECK(model.stage().backward(activation(i, 1), static_cast<std::int64_t>(i), micros[i]).equal(inputs[i]));
    check_same_bits(model.take_gradients(), alone[i]);
  }
}

TEST_CASE("the first write of a gradient overwrites, the second adds") {
  for (const NamedModel& named : all_models()) {
    INFO(named.name);
    const std::vector<MicroBatch> micros = micro_batches(named.model);
    SmallModel model(named.model, {.type = at::kDouble});
    std::vector<NamedTensors> alone;
    for (const MicroBatch& micro : micros) {
      model.learn(micro);
      alone.push_back(model.take_gradients());
      check_gradients(alone.back(), alone.back(), 0);  // finite: nothing of the memory's NaN is left
    }
    for (const MicroBatch& micro : micros) model.learn(micro);
    check_gradients(model.take_gradients(), sum(alone), 1e-12);
  }
}

TEST_CASE("a step that was dropped leaves nothing in the next one's gradients") {
  SmallModel model(qwen_model());
  const std::vector<MicroBatch> micros = micro_batches(qwen_model());
  model.learn(micros[0]);
  const NamedTensors expected = model.take_gradients();
  model.learn(micros[1]);
  model.store().drop_gradients();
  model.learn(micros[0]);
  check_same_bits(model.take_gradients(), expected);
}

TEST_CASE("what no pass wrote is zero") {
  SmallModel model(gpt2_model(), {.blocks = {2}});
  const MicroBatch micro = random_micro_batch(gpt2_model());
  const at::Tensor x = at::ones({21, gpt2_model().hidden_size});
  model.stage().forward(x.clone(), 0, micro, ForwardMode::training);
  model.stage().backward(x.clone(), 0, micro);
  for (const auto& [name, gradient] : model.take_gradients()) {
    INFO(name);
    CHECK(gradient.isfinite().all().item<bool>());
    if (name.rfind("layers.1.", 0) != 0) CHECK(gradient.eq(0).all().item<bool>());
  }
}

TEST_CASE("a token is seen from its own position on, and by its own sequence alone") {
  for (const NamedModel& named : all_models()) {
    const MicroBatch micro = random_micro_batch(named.model);
    for (const AttentionKernel attention : {AttentionKernel::flash, AttentionKernel::math}) {
      SmallModel model(named.model, {.attention = attention});
      const at::Tensor losses = model.forward(micro);
      for (std::int64_t row = 0; row < micro.batch * micro.sequence; ++row) {
        INFO(named.name << ", attention " << static_cast<int>(attention) << ", row " << row);
        const at::Tensor changed = model.forward(with_other_token(named.model, micro, row));
        const std::int64_t sequence = row / micro.sequence, position = row % micro.sequence;
        CHECK(rows_are_alike(changed, losses, micro, sequence, position));
        // From there on all rows change: attention does see it.
        CHECK(changed.ne(losses).narrow(0, row, micro.sequence - position).all().item<bool>());
      }
    }
  }
}

TEST_CASE("a sequence gives the same losses alone as among others") {
  for (const NamedModel& named : all_models()) {
    const MicroBatch micro = random_micro_batch(named.model);
    SmallModel model(named.model);
    const at::Tensor losses = model.forward(micro);
    for (std::int64_t i = 0; i < micro.batch; ++i) {
      INFO(named.name << ", sequence " << i);
      MicroBatch alone = micro;
      alone.batch = 1;
      alone.tokens = micro.tokens.narrow(0, i * micro.sequence, micro.sequence);
      alone.targets = micro.targets.narrow(0, i * micro.sequence, micro.sequence);
      CHECK(distance(model.forward(alone), losses.narrow(0, i * micro.sequence, micro.sequence)) < 1e-5);
    }
  }
}

// More logits than one chunk has memory for: the second chunk adds where the first one wrote.
TEST_CASE("a head makes logits chunk by chunk as it does all at once") {
  ModelRecipe recipe = llama_model();
  recipe.hidden_size = 2;
  recipe.vocab_size = 1 << 20;
  SmallModel model(recipe, {.blocks = {3}});
  MicroBatch whole = random_micro_batch(recipe, 3, 1, 40);
  const at::Tensor x = wave(40, 2, 0);
  const at::Tensor losses = model.stage().forward(x, 0, whole, ForwardMode::training);
  const at::Tensor dx = model.stage().backward({}, 0, whole);
  const NamedTensors gradients = model.take_gradients();
  std::vector<NamedTensors> halves;
  for (std::int64_t part = 0; part < 2; ++part) {
    MicroBatch half = whole;
    half.targets = whole.targets.narrow(0, 20 * part, 20);
    const at::Tensor half_losses = model.stage().forward(x.narrow(0, 20 * part, 20), 0, half, ForwardMode::training);
    CHECK(distance(losses.narrow(0, 20 * part, 20), half_losses) < 1e-6);
    CHECK(distance(dx.narrow(0, 20 * part, 20), model.stage().backward({}, 0, half)) < 1e-5);
    halves.push_back(model.take_gradients());
  }
  check_gradients(gradients, sum(halves), 1e-5);
}

}  // namespace llmtrain::test
