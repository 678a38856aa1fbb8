// SPDX-License-Identifier: Apache-2.0
// Tokens that go to experts which another pass has chosen, against autograd's of a loop over tokens in float64.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/model/moe/pass_routing.h"
#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

using Use = PassRouting::Use;

// What routers choose in a pass of evaluation.
PassRouting recorded(SmallModel& model, PassInput input) {
  PassRouting routing(Use::record);
  input.context.routing = &routing;
  model.forward(input, PassMode::evaluation);
  return routing;
}

NamedTensors by_prefix(const PassRouting& routing) {
  NamedTensors experts;
  for (const auto& [layer, chosen] : routing.layers()) experts["layers." + std::to_string(layer) + "."] = chosen;
  return experts;
}

// As samples have them: of each row the experts of all layers.
at::Tensor told(const PassRouting& routing) {
  std::vector<at::Tensor> layers;
  for (const auto& [layer, chosen] : routing.layers()) layers.push_back(chosen);
  return at::cat(layers, 1);
}

// What routers have chosen, which are turned round then, so that there is something to replay.
PassRouting recorded_before_change(SmallModel& model, const PassInput& micro) {
  PassRouting routing(Use::replay, recorded(model, micro).layers());
  for (const auto& [layer, experts] : routing.layers())
    model.weight("layers." + std::to_string(layer) + ".ffn.router.weight").neg_();
  return routing;
}

Expected expected_of(const NamedModel& named, SmallModel& model, const PassInput& micro, const PassRouting& routing) {
  return reference_passes(named.model, model.weights(), micro, {}, plain_product, by_prefix(routing));
}

void check_learned(SmallModel& model, const PassInput& micro, const Expected& expected) {
  CHECK(distance(model.learn(micro), expected.losses) < 1e-10);
  check_gradients(model.take_gradients(), expected.gradients, 1e-10);
}

}  // namespace

TEST_CASE("routers that are changed send tokens to recorded experts, by gates and gradients of their own scores") {
  for (const NamedModel& named : models_with_experts()) {
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      INFO(named.name << ", recompute " << static_cast<int>(recompute));
      PassInput micro = random_input(named.model);
      SmallModel model(named.model, {.recompute = recompute, .type = at::kDouble});
      PassRouting routing = recorded_before_change(model, micro);
      CHECK_FALSE(routing.layers().empty());
      // Else nothing would have to be replayed.
      CHECK_FALSE(at::equal(recorded(model, micro).layers().begin()->second, routing.layers().begin()->second));
      const Expected expected = expected_of(named, model, micro, routing);
      micro.context.routing = &routing;
      CHECK(distance(model.forward(micro, PassMode::evaluation), expected.losses) < 1e-10);
      check_learned(model, micro, expected);
    }
  }
}

TEST_CASE("a pass with its own routing has the bits that it has without") {
  for (const NamedModel& named : models_with_experts()) {
    INFO(named.name);
    PassInput micro = random_input(named.model);
    SmallModel model(named.model);
    const at::Tensor losses = model.learn(micro).clone();
    const NamedTensors gradients = model.take_gradients();
    PassRouting routing(Use::replay, recorded(model, micro).layers());
    micro.context.routing = &routing;
    CHECK(at::equal(model.learn(micro), losses));
    check_same_bits(model.take_gradients(), gradients);
  }
}

TEST_CASE("samples tell the experts of their tokens, in passes that learn and where layers run again") {
  for (const NamedModel& named : models_with_experts()) {
    INFO(named.name);
    PassInput micro = random_input(named.model);
    SmallModel model(named.model, {.recompute = Recompute::full, .type = at::kDouble});
    const PassRouting routing = recorded_before_change(model, micro);
    const Expected expected = expected_of(named, model, micro, routing);
    micro.batch.field(BatchField::routed_experts) = told(routing);
    check_learned(model, micro, expected);
  }
}

TEST_CASE("tokens of which samples tell no experts go where their routers say, with the same bits") {
  for (const NamedModel& named : models_with_experts()) {
    INFO(named.name);
    PassInput micro = random_input(named.model);
    SmallModel model(named.model);
    const at::Tensor losses = model.learn(micro).clone();
    const NamedTensors gradients = model.take_gradients();
    at::Tensor experts = told(recorded(model, micro));
    for (const std::int64_t step : {3, 1}) {
      // Every third token has none, and then no token has any.
      experts.slice(0, 0, std::nullopt, step).fill_(-1);
      micro.batch.field(BatchField::routed_experts) = experts;
      CHECK(at::equal(model.learn(micro), losses));
      check_same_bits(model.take_gradients(), gradients);
    }
  }
}

TEST_CASE("rows that a rank has of a pass are recorded and found by their places in it") {
  // The first and last token of sequences of four, of two sequences.
  const kernels::SequencePart ends{4, {{0, 1}, {3, 1}}};
  const kernels::RowsAtHand at_hand{ends, 2};
  const at::Tensor own = at::arange(8, at::kLong).view({4, 2});
  PassRouting routing(Use::record);
  routing.record(5, own, at_hand, 8);
  const at::Tensor& all = routing.layers().at(5);
  CHECK(at::equal(all.index_select(0, at::tensor({0, 3, 4, 7})), own));
  CHECK(all.index_select(0, at::tensor({1, 2, 5, 6})).eq(-1).all().item<bool>());
  CHECK(at::equal(routing.of(5, at_hand, 4), own));
  CHECK_FALSE(routing.of(4, at_hand, 4).defined());
}

}  // namespace llmtrain::test
