// SPDX-License-Identifier: Apache-2.0
// Layers with experts against autograd's of a loop over tokens in float64.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/base/hash.h"
#include "kernels/moe/jitter.h"
#include "kernels/random/dropout.h"
#include "kernels/random/random.h"
#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

// The layers with experts of the small models have two layers.
RoutingSums routing_of(SmallModel& model, const PassInput& micro) {
  model.learn(micro);
  return model.take_routing();
}

// Sends every token to one expert: the others' logits are far below.
void favour(SmallModel& model, std::int64_t expert,
            const std::vector<std::string>& layers = {"layers.0.", "layers.1."}) {
  for (const std::string& layer : layers) {
    model.weight(layer + "ffn_norm.weight").fill_(0);
    model.weight(layer + "ffn_norm.bias").fill_(1);
    model.weight(layer + "ffn.router.weight").fill_(-1)[expert].fill_(1);
  }
}

// What routers multiply their input with, and add to their logits.
DropoutMasks random_numbers(const ModelRecipe& recipe, const PassInput& micro) {
  return [moe = *recipe.moe, width = recipe.hidden_size, micro](const std::string& site, at::IntArrayRef shape) {
    const std::uint64_t key = kernels::dropout_key(micro.context.seed, micro.context.step, stable_hash(site));
    const std::int64_t first = micro.context.first_sample * micro.batch.sequences().length;
    at::Tensor result = at::ones(shape, at::kDouble);
    if (site.ends_with("ffn.router") && moe.jitter > 0) {
      kernels::jitter_(result, {moe.jitter, key, first * width});
    } else if (site.ends_with("ffn.router.noise") && moe.gate_noise > 0) {
      kernels::fill_normal_(result, key, moe.gate_noise / static_cast<double>(moe.experts), first * moe.experts);
    } else {
      return at::Tensor();
    }
    return result;
  };
}

}  // namespace

TEST_CASE("experts give the losses and every gradient of autograd, whatever is recomputed") {
  for (const NamedModel& named : models_with_experts()) {
    const PassInput micro = random_input(named.model);
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      const Expected expected = reference_passes(named.model, SmallModel(named.model, {.type = type}).weights(), micro);
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        INFO(named.name << (type == at::kDouble ? ", float64" : ", fp32") << ", recompute "
                        << static_cast<int>(recompute));
        SmallModel model(named.model, {.recompute = recompute, .type = type});
        CHECK(distance(model.learn(micro), expected.losses) < tolerance_of(type));
        check_gradients(model.take_gradients(), expected.gradients, tolerance_of(type));
        CHECK(distance(model.forward(micro, PassMode::evaluation), expected.losses) < tolerance_of(type));
      }
    }
  }
}

// Losses of tokens are divided by how many count, those of routers by how many rows there are.
TEST_CASE("routers learn from rows whose losses do not count") {
  for (const NamedModel& named : models_with_experts()) {
    INFO(named.name);
    PassInput micro = random_input(named.model);
    micro.batch.field(BatchField::counted_rows) = at::tensor({1, 2, 5, 11, 19, 20}, at::kLong);
    SmallModel model(named.model, {.type = at::kDouble});
    const Expected expected = reference_passes(named.model, model.weights(), micro);
    CHECK(distance(model.learn(micro), expected.losses) < 1e-10);
    check_gradients(model.take_gradients(), expected.gradients, 1e-10);
  }
}

TEST_CASE("experts drop the tokens beyond their capacity, by position or by score") {
  for (const RouterPriority priority : {RouterPriority::position, RouterPriority::score}) {
    for (const double factor : {0.3, 0.7, 1.0, 1.5, -0.7, 0.2}) {
      ModelRecipe recipe = with_experts(gpt2_model());
      recipe.moe->priority = priority;
      recipe.moe->capacity_factor = factor;
      const PassInput micro = random_input(recipe);
      SmallModel model(recipe, {.type = at::kDouble});
      const Expected expected = reference_passes(recipe, model.weights(), micro);
      INFO("priority " << static_cast<int>(priority) << ", factor " << factor << ", " << expected.dropped
                       << " dropped");
      CHECK(expected.dropped > 0);
      CHECK(distance(model.learn(micro), expected.losses) < 1e-10);
      check_gradients(model.take_gradients(), expected.gradients, 1e-10);
      const RoutingSums sums = model.take_routing();
      CHECK(sums.dropped_share * 21 * 2 == Approx(static_cast<double>(expected.dropped)));
    }
  }
}

// Three tokens per expert and a factor below a third: no expert has a place.
TEST_CASE("experts without a place pass tokens on, and their gradients are zero") {
  ModelRecipe recipe = with_experts(gpt2_model());
  recipe.moe->capacity_factor = 0.3;
  const PassInput micro = random_input(recipe);
  SmallModel model(recipe, {.blocks = {1}});
  const at::Tensor y = model.forward_of(wave(21, 20, 0), micro);
  CHECK(model.take_routing().dropped_share == 1);
  model.stage().backward({wave(21, 20, 1)}, 0, micro.batch, micro.context);
  for (const auto& [name, gradient] : model.take_gradients()) {
    INFO(name);
    CHECK(gradient.isfinite().all().item<bool>());
    if (name.find("experts") != std::string::npos) CHECK(gradient.eq(0).all().item<bool>());
  }
  CHECK(y.isfinite().all().item<bool>());
}

TEST_CASE("all tokens may be at one expert, and of equal scores the lower expert is chosen") {
  ModelRecipe recipe = with_experts(gpt2_model());
  const PassInput micro = random_input(recipe);
  SmallModel model(recipe);
  favour(model, 5);
  const Expected expected = reference_passes(recipe, model.weights(), micro);
  CHECK(distance(model.learn(micro), expected.losses) < 2e-5);
  const NamedTensors gradients = model.take_gradients();
  check_gradients(gradients, expected.gradients, 2e-5);
  const at::Tensor used = gradients.at("layers.0.ffn.experts.down.bias").abs().sum(1).gt(0);
  for (std::int64_t expert = 0; expert < 8; ++expert) CHECK(used[expert].item<bool>() == (expert == 5 || expert == 0));
  // Eight times as many tokens at the fullest expert as the mean of two choices.
  CHECK(model.take_routing().load == Approx(2 * 4));
}

TEST_CASE("even routing has the balance loss 1, and one expert for all eight times its share") {
  ModelRecipe recipe = with_experts(gpt2_model());
  const PassInput micro = random_input(recipe);
  SmallModel even(recipe);
  for (const std::string layer : {"layers.0.", "layers.1."}) even.weight(layer + "ffn.router.weight").zero_();
  const RoutingSums sums = routing_of(even, micro);
  CHECK(sums.passes == 2);
  CHECK(sums.balance_loss / sums.passes == Approx(1));
  // Equal logits of 0: the log-sum-exp of eight.
  CHECK(sums.z_loss / sums.passes == Approx(std::log(8.0) * std::log(8.0)));
  SmallModel one(recipe);
  favour(one, 3);
  CHECK(routing_of(one, micro).balance_loss / 2 == Approx(8));
  CHECK(one.take_routing().passes == 0);
}

TEST_CASE("a cosine router's scale ends at 100, and its temperature then has no gradient") {
  ModelRecipe recipe = with_experts(gpt2_model());
  recipe.moe->router = Router::cosine;
  const PassInput micro = random_input(recipe);
  SmallModel model(recipe, {.type = at::kDouble});
  model.weight("layers.0.ffn.router.temperature").fill_(4.2);
  const Expected expected = reference_passes(recipe, model.weights(), micro);
  CHECK(distance(model.learn(micro), expected.losses) < 1e-10);
  const NamedTensors gradients = model.take_gradients();
  CHECK(gradients.at("layers.0.ffn.router.temperature").item<double>() == 0);
  CHECK(gradients.at("layers.1.ffn.router.temperature").item<double>() != 0);
  check_gradients(gradients, expected.gradients, 1e-10);
}

TEST_CASE("jitter scales what routers see in training, and nothing else") {
  for (const Router router : {Router::linear, Router::cosine}) {
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      ModelRecipe recipe = with_experts(llama_model());
      recipe.moe->router = router;
      recipe.moe->jitter = 0.4;
      const PassInput micro = random_input(recipe);
      SmallModel model(recipe, {.recompute = recompute, .type = at::kDouble});
      const Expected expected = reference_passes(recipe, model.weights(), micro, random_numbers(recipe, micro));
      CHECK(distance(model.learn(micro), expected.losses) < 1e-10);
      check_gradients(model.take_gradients(), expected.gradients, 1e-10);
      const Expected without = reference_passes(recipe, model.weights(), micro);
      CHECK(distance(expected.losses, without.losses) > 1e-6);
      CHECK(distance(model.forward(micro, PassMode::evaluation), without.losses) < 1e-10);
    }
  }
}

TEST_CASE("gate noise is added to the logits in training alone, and the load-importance loss sees both") {
  for (const BalanceLoss loss : {BalanceLoss::gshard, BalanceLoss::load_importance}) {
    for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
      ModelRecipe recipe = with_experts(gpt2_model());
      recipe.moe->balance_loss = loss;
      recipe.moe->gate_noise = 1.5;
      recipe.moe->capacity_factor = 0.8;
      const PassInput micro = random_input(recipe);
      SmallModel model(recipe, {.type = type});
      const Expected expected = reference_passes(recipe, model.weights(), micro, random_numbers(recipe, micro));
      CHECK(distance(model.learn(micro), expected.losses) < tolerance_of(type));
      check_gradients(model.take_gradients(), expected.gradients, tolerance_of(type));
      const RoutingSums sums = model.take_routing();
      CHECK(sums.dropped_share * 21 * 2 == Approx(static_cast<double>(expected.dropped)));
      const Expected without = reference_passes(recipe, model.weights(), micro);
      CHECK(distance(expected.losses, without.losses) > 1e-6);
      CHECK(distance(model.forward(micro, PassMode::evaluation), without.losses) < tolerance_of(type));
    }
  }
}

TEST_CASE("routers, priorities, losses, noise, jitter and capacity go together") {
  for (const Router router : {Router::linear, Router::cosine}) {
    for (const BalanceLoss loss : {BalanceLoss::gshard, BalanceLoss::load_importance, BalanceLoss::none}) {
      for (const RouterPriority priority : {RouterPriority::position, RouterPriority::score}) {
        ModelRecipe recipe = with_experts(priority == RouterPriority::score ? mixed_model() : gpt2_model());
        recipe.moe->router = router;
        recipe.moe->balance_loss = loss;
        recipe.moe->priority = priority;
        recipe.moe->capacity_factor = 0.8;
        recipe.moe->gate_noise = 1.5;
        recipe.moe->jitter = 0.3;
        recipe.moe->shared_experts = 1;
        recipe.moe->shared_gate = true;
        INFO("router " << static_cast<int>(router) << ", loss " << static_cast<int>(loss) << ", priority "
                       << static_cast<int>(priority));
        const PassInput micro = random_input(recipe);
        SmallModel model(recipe, {.type = at::kDouble});
        const Expected expected = reference_passes(recipe, model.weights(), micro, random_numbers(recipe, micro));
        CHECK(expected.dropped > 0);
        CHECK(distance(model.learn(micro), expected.losses) < 1e-10);
        check_gradients(model.take_gradients(), expected.gradients, 1e-10);
        const RoutingSums sums = model.take_routing();
        CHECK(sums.dropped_share * 21 * 2 == Approx(static_cast<double>(expected.dropped)));
      }
    }
  }
}

// Where logits are 0 the probabilities are equal, and so are the chances of all experts: nothing varies.
TEST_CASE("even routing has the load-importance loss 0 and the entropy 1, and one sure expert much and 0") {
  ModelRecipe recipe = with_experts(gpt2_model());
  recipe.moe->balance_loss = BalanceLoss::load_importance;
  recipe.moe->gate_noise = 1e-3;
  const PassInput micro = random_input(recipe);
  SmallModel even(recipe);
  for (const std::string layer : {"layers.0.", "layers.1."}) even.weight(layer + "ffn.router.weight").zero_();
  const RoutingSums sums = routing_of(even, micro);
  CHECK(sums.entropy / sums.passes == Approx(1).epsilon(1e-5));
  // Noise alone decides: the loads differ by it, the importances do not.
  CHECK(sums.balance_loss / sums.passes < 0.1);
  SmallModel one(recipe);
  favour(one, 3);
  const RoutingSums sure = routing_of(one, micro);
  CHECK(sure.entropy / 2 < 1e-3);
  // The importance of one expert for all varies by 7, the number of the others; loads vary less, for a second expert is
  // chosen too.
  CHECK(sure.balance_loss / 2 > 0.5 * 7);
  CHECK(sure.balance_loss / 2 < 0.5 * (7 + 3));
}

TEST_CASE("a step's tokens are counted by layer and expert") {
  ModelRecipe recipe = with_experts(mixed_model());
  recipe.moe->every = 2;
  const PassInput micro = random_input(recipe);
  SmallModel model(recipe);
  favour(model, 5, {"layers.1."});
  model.learn(micro);
  model.learn(micro);
  const RoutingCounts counts = model.take_routing_counts();
  REQUIRE(counts.size() == 2);
  CHECK(counts[0].empty());
  CHECK(counts[1] == std::vector<double>{42, 0, 0, 0, 0, 42, 0, 0});
  CHECK(model.take_routing_counts()[1].empty());
}

TEST_CASE("numbers that are none reach the loss") {
  const ModelRecipe recipe = with_experts(llama_model());
  SmallModel model(recipe);
  model.weight("layers.0.ffn.router.weight").fill_(NAN);
  CHECK(model.learn(random_input(recipe)).isnan().all().item<bool>());
}

TEST_CASE("recompute changes no bit of a model with experts, and counts no routing twice") {
  for (const NamedModel& named : models_with_experts()) {
    for (const double dropout : {0.0, 0.3}) {
      ModelRecipe recipe = named.model;
      recipe.dropout = dropout;
      recipe.moe->capacity_factor = 1;
      const PassInput micro = random_input(recipe);
      SmallModel kept(recipe);
      const at::Tensor losses = kept.learn(micro);
      const NamedTensors gradients = kept.take_gradients();
      const RoutingSums routing = kept.take_routing();
      for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
        INFO(named.name << ", recompute " << static_cast<int>(recompute));
        SmallModel again(recipe, {.recompute = recompute});
        CHECK(again.learn(micro).equal(losses));
        check_same_bits(again.take_gradients(), gradients);
        CHECK(again.take_routing().passes == routing.passes);
      }
    }
  }
}

TEST_CASE("the first write of an expert's gradient overwrites, the second adds") {
  for (const NamedModel& named : models_with_experts()) {
    INFO(named.name);
    SmallModel model(named.model, {.type = at::kDouble});
    const PassInput first = random_input(named.model, 1), second = random_input(named.model, 2);
    NamedTensors sum;
    for (const PassInput& micro : {first, second}) {
      model.learn(micro);
      for (const auto& [name, gradient] : model.take_gradients())
        sum[name] = sum.count(name) != 0 ? sum[name] + gradient : gradient.clone();
    }
    model.learn(first);
    model.learn(second);
    check_gradients(model.take_gradients(), sum, 1e-12);
  }
}

TEST_CASE("in bf16 experts stay near float64") {
  const ModelRecipe recipe = with_experts(llama_model());
  const PassInput micro = random_input(recipe);
  SmallModel model(recipe, {.type = at::kBFloat16});
  // bf16 may send a token of nearly equal scores elsewhere, which moves its loss as a whole.
  const Expected expected = reference_passes(recipe, model.weights(), micro);
  const at::Tensor losses = model.learn(micro);
  CHECK(std::abs((losses.to(at::kDouble).mean() / expected.losses.mean()).item<double>() - 1) < 0.02);
}

}  // namespace llmtrain::test
