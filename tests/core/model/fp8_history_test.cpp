// SPDX-License-Identifier: Apache-2.0
// Delayed scaling: scales of the steps before, against closed forms and against the reference model with PyTorch's
// casts.
#include "core/model/layers/fp8_history.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/graph/fp8_products.h"
#include "core/model/layers/scaled_tensor.h"
#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Fp8ScalingRecipe delayed(std::int64_t history_steps, std::int64_t margin = 0) {
  return {Fp8ScalingMethod::delayed, history_steps, margin};
}

std::array<float, 3> scales_of(const Fp8History& history, std::size_t product) {
  return {history.scale(product, Fp8Operand::input), history.scale(product, Fp8Operand::weight),
          history.scale(product, Fp8Operand::output_gradient)};
}

std::vector<float> maxima_of(const Fp8History& history, std::size_t index) {
  const auto maxima = history.state(index).maxima;
  return {maxima.begin(), maxima.end()};
}

// Casts with the largest magnitudes of the pass before, where there is one; clamps what is larger.
class DelayedProducts {
 public:
  Product product() {
    return [this](const at::Tensor& x, const at::Tensor& weight) {
      const std::size_t index = next_++;
      if (index == found_.size()) found_.emplace_back();
      at::Tensor y = plain_product(through(x, cast(index, 0, x, at::kFloat8_e4m3fn, 448)),
                                   through(weight, cast(index, 1, weight, at::kFloat8_e4m3fn, 448)));
      if (y.requires_grad())
        y.register_hook([this, index](const at::Tensor& dy) { return cast(index, 2, dy, at::kFloat8_e5m2, 57344); });
      return y;
    };
  }
  void end_pass() {
    before_ = found_;
    next_ = 0;
  }

 private:
  static at::Tensor through(const at::Tensor& x, const at::Tensor& value) { return x + (value - x).detach(); }

  at::Tensor cast(std::size_t index, std::size_t operand, const at::Tensor& x, at::ScalarType format, double most) {
    found_[index][operand] = x.abs().max().item<double>();
    const double largest = before_.empty() ? found_[index][operand] : before_[index][operand];
    const double scale = std::exp2(std::floor(std::log2(most / largest)));
    return (x.detach() * scale).clamp(-most, most).to(at::kFloat).to(format).to(x.scalar_type()) / scale;
  }

  std::vector<std::array<double, 3>> found_, before_;
  std::size_t next_ = 0;
};

}  // namespace

TEST_CASE("a delayed scale is that of the largest magnitude in the history") {
  Fp8History history({4, 9}, delayed(2));
  CHECK(scales_of(history, 9) == std::array{0.0F, 0.0F, 0.0F});
  // 448 ÷ 64 and 57,344 ÷ 2²⁰.
  history.record(std::vector<double>{1, 1, 1, 7, 14, 0x1p-20 * 57344});
  CHECK(scales_of(history, 9) == std::array{64.0F, 32.0F, 0x1p20F});
  history.record(std::vector<double>{1, 1, 1, 8, 2, 0});
  CHECK(scales_of(history, 9) == std::array{32.0F, 32.0F, 0x1p20F});
  // The first step is forgotten.
  history.record(std::vector<double>{1, 1, 1, 7, 2, 0});
  CHECK(scales_of(history, 9) == std::array{32.0F, 128.0F, 0.0F});
  CHECK(maxima_of(history, 1) == std::vector<float>{7, 2, 0, 8, 2, 0});
}

TEST_CASE("a window has the largest of its newest rows after any number of them") {
  for (const std::size_t rows : {1U, 2U, 5U, 8U}) {
    INFO(rows << " rows");
    MaximaWindow window(rows, 2);
    std::vector<float> newest(2 * rows, 0);
    // Falling, rising and mixed numbers, and in the middle what a checkpoint has.
    for (int step = 0; step < 50; ++step) {
      const auto number = static_cast<float>((step * 37) % 101);
      const std::array row{step < 25 ? 100 - static_cast<float>(step) : static_cast<float>(step), number};
      window.push(row);
      newest.insert(newest.begin(), row.begin(), row.end());
      newest.resize(2 * rows);
      if (step % 20 == 13) window.assign(std::vector(newest));
      REQUIRE(std::ranges::equal(window.newest_first(), newest));
      for (const std::size_t column : {0U, 1U}) {
        float largest = 0;
        for (std::size_t i = column; i < newest.size(); i += 2) largest = std::max(largest, newest[i]);
        CHECK(window.largest(column) == largest);
      }
    }
    window.assign(window.newest_first());
    CHECK(std::ranges::equal(window.newest_first(), newest));
    window.assign(std::array{3.0F, 4.0F});
    CHECK(window.largest(1) == 4);
  }
}

TEST_CASE("a margin makes delayed scales smaller by powers of two") {
  Fp8History history({0}, delayed(16, 3));
  history.record(std::vector<double>{7, 14, 57344});
  CHECK(scales_of(history, 0) == std::array{8.0F, 4.0F, 0.125F});
}

TEST_CASE("a history takes the largest of a step, and nothing of one that is not finite") {
  Fp8History history({2}, delayed(8));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const float largest : {3.0F, 7.0F, 5.0F}) history.note(2, Fp8Operand::weight, largest);
  CHECK(take_largest(history) == std::vector<double>{0, 7, 0});
  CHECK(take_largest(history) == std::vector<double>{0, 0, 0});
  for (const float largest : {nan, 7.0F}) history.note(2, Fp8Operand::input, largest);
  const std::vector<double> found = take_largest(history);
  CHECK(found == std::vector<double>{infinity, 0, 0});
  history.record(found);
  CHECK(maxima_of(history, 0) == std::vector<float>(24, 0));
}

TEST_CASE("a history goes on from a stored one, as far as it has room") {
  Fp8History history({2}, delayed(2));
  history.set_state(0, {.maxima = {1, 2, 3, 7, 2, 3, 448, 2, 3}});
  CHECK(maxima_of(history, 0) == std::vector<float>{1, 2, 3, 7, 2, 3});
  CHECK(history.scale(2, Fp8Operand::input) == 64);
  history.set_state(0, {});
  CHECK(history.scale(2, Fp8Operand::input) == 0);
}

TEST_CASE("a product leaves FP8 after several steps in a row in which an operand is beyond its scale's range") {
  Fp8History history({4, 9}, delayed(1), 3);
  const auto step = [&](double input, double gradient) {
    return history.record(std::vector<double>{1, 1, 1, input, 1, gradient});
  };
  // Scales are those of the step before, with which the largest numbers are 448 and 57,344 ÷ 2ⁿ.
  CHECK(step(448, 57344).empty());
  CHECK(step(449, 57344).empty());
  CHECK(std::ranges::equal(history.state(1).fallback, std::array{1.0F, 0.0F}));
  CHECK(step(900, 57344).empty());
  // The third one is within.
  CHECK(step(900, 57344).empty());
  CHECK(std::ranges::equal(history.state(1).fallback, std::array{0.0F, 0.0F}));
  CHECK(step(1800, 57344).empty());
  CHECK(step(1, 57345).empty());
  const auto leaving = step(4, 4 * 57344);
  REQUIRE(leaving.size() == 1);
  CHECK(leaving.front().product == 9);
  CHECK(leaving.front().operand == Fp8Operand::input);
  CHECK(leaving.front().largest == 4);
  CHECK(leaving.front().range == 1.75);
  CHECK(history.has_fallen_back(9));
  CHECK_FALSE(history.has_fallen_back(4));
  // For good, and from a checkpoint too.
  CHECK(step(0, 0).empty());
  CHECK(history.has_fallen_back(9));
  Fp8History other({4, 9}, delayed(1), 3);
  other.set_state(1, {maxima_of(history, 1), {history.state(1).fallback[0], history.state(1).fallback[1]}});
  CHECK(other.has_fallen_back(9));
}

TEST_CASE("a layer that has left FP8 multiplies as without it") {
  const NamedModel named = all_models().front();
  Fp8History history(fp8_products(Graph::build(named.model)), delayed(4), 1);
  for (std::size_t i = 0; i < history.products().size(); ++i) history.set_state(i, {{1, 1, 1}, {0, 1}});
  SmallModel model(named.model, {.type = at::kDouble, .fp8 = true, .fp8_history = &history});
  PassInput micro = random_input(named.model);
  micro.context.recorders.fp8_history = &history;
  const Expected expected = reference_passes(named.model, model.weights(), micro);
  CHECK(distance(model.learn(micro), expected.losses) < 1e-9);
  check_gradients(model.take_gradients(), expected.gradients, 1e-9);
  CHECK(std::ranges::count(take_largest(history), 0.0) == std::ssize(history.products()) * 3);
  // In evaluation, too, which has no history of its own.
  micro.context.recorders.fp8_history = nullptr;
  CHECK(distance(model.forward(micro, PassMode::evaluation), expected.losses) < 1e-9);
}

TEST_CASE("delayed scales ask no other ranks, are the same for any loss scale, and show what is not finite") {
  Fp8History history({5}, delayed(8));
  PassContext pass{.backward_scale = 1024, .recorders = {.fp8_history = &history}};
  const Fp8Scaling scaling = Fp8Scaling(nullptr, nullptr, nullptr).of(5);
  const auto scale = [&](Fp8Operand operand, double value) {
    const Fp8Scaling::Operand whole{operand, at::full({3}, value, at::kFloat)};
    const auto known = scaling.delayed({operand}, pass);
    return (known ? scaling.cast(whole, *known, pass).scale : scaling.current({whole}, pass)).item<float>();
  };
  // Nothing is known: current.
  CHECK(scale(Fp8Operand::input, 7) == 64);
  CHECK(scale(Fp8Operand::output_gradient, 57344) == 1);
  history.record(take_largest(history));
  CHECK(scale(Fp8Operand::input, 700) == 64);
  CHECK(scale(Fp8Operand::output_gradient, 1) == 1);
  pass.backward_scale = 1;
  CHECK(scale(Fp8Operand::output_gradient, 1) == 1024);
  CHECK(std::isnan(scale(Fp8Operand::input, infinity)));
  CHECK(take_largest(history).front() == infinity);
}

TEST_CASE("a weight that is not finite shows with delayed scales, with which it would saturate") {
  const NamedModel named = all_models().front();
  SmallModel model(named.model, {.type = at::kDouble, .fp8 = true});
  Fp8History history(fp8_products(model.graph()), delayed(4));
  for (std::size_t i = 0; i < history.products().size(); ++i) history.set_state(i, {{1, 1, 1}, {}});
  PassInput micro = random_input(named.model);
  micro.context.recorders.fp8_history = &history;
  CHECK(model.learn(micro).isfinite().all().item<bool>());
  model.weight("layers.0.ffn.down.weight").view({-1})[5].fill_(infinity);
  CHECK(model.learn(micro).isnan().all().item<bool>());
  CHECK(std::ranges::count(take_largest(history), infinity) > 0);
}

TEST_CASE("products with delayed scales give the losses and gradients of casts before plain products") {
  for (const NamedModel& named : all_models()) {
    INFO(named.name);
    SmallModel model(named.model, {.recompute = Recompute::selective, .type = at::kDouble, .fp8 = true});
    Fp8History history(fp8_products(model.graph()), delayed(1));
    DelayedProducts reference;
    PassInput micro = random_input(named.model);
    micro.context.recorders.fp8_history = &history;
    for (const double growth : {1.0, 3.0, 0.1}) {
      // Values that have grown beyond what the history remembers saturate in part.
      model.weight("layers.0.ffn.down.weight").mul_(growth);
      const Expected expected = reference_passes(named.model, model.weights(), micro, {}, reference.product());
      reference.end_pass();
      CHECK(distance(model.learn(micro), expected.losses) < 1e-9);
      check_gradients(model.take_gradients(), expected.gradients, 1e-9);
      const std::vector<double> largest = take_largest(history);
      CHECK(std::ranges::count(largest, 0.0) == 0);
      history.record(largest);
    }
  }
}

TEST_CASE("a graph's FP8 products are one of each matrix that layers multiply") {
  for (const NamedModel& named : all_models()) {
    const Graph graph = Graph::build(named.model);
    CHECK(fp8_products(graph).size() == static_cast<std::size_t>(4 * named.model.layers));
  }
  const Graph graph = Graph::build(
      llama_model(), {.first_layers = 0, .last_layers = 0, .parameters = {"*.down.weight"}, .fallback_steps = 0});
  std::vector<std::string> names;
  for (const std::size_t index : fp8_products(graph)) names.push_back(graph.parameters[index].name);
  names.resize(3);
  CHECK(names == std::vector<std::string>{"layers.0.attention.query.weight", "layers.0.attention.output.weight",
                                          "layers.0.ffn.gate.weight"});
}

}  // namespace llmtrain::test
