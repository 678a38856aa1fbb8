// SPDX-License-Identifier: Apache-2.0
// Linear layers that multiply FP8 numbers against the reference model with PyTorch's casts before its products.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/model/layers/layers.h"
#include "core/model/layers/scaled_tensor.h"
#include "core/model/moe/row_scaling.h"
#include "kernels/separate_rows.h"
#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

// The values of x that the format has with the largest power of two as scale that keeps them within it.
at::Tensor rounded(const at::Tensor& x, at::ScalarType format, double most) {
  const double scale = std::exp2(std::floor(std::log2(most / x.abs().max().item<double>())));
  return (x.detach() * scale).clamp(-most, most).to(at::kFloat).to(format).to(x.scalar_type()) / scale;
}

at::Tensor in_e4m3(const at::Tensor& x) { return rounded(x, at::kFloat8_e4m3fn, 448); }
at::Tensor in_e5m2(const at::Tensor& x) { return rounded(x, at::kFloat8_e5m2, 57344); }

// Rounding has the gradient of what it rounds (the straight-through estimator).
at::Tensor straight_through(const at::Tensor& x, const at::Tensor& value) { return x + (value - x).detach(); }

at::Tensor fp8_product(const at::Tensor& x, const at::Tensor& weight) {
  at::Tensor y = plain_product(straight_through(x, in_e4m3(x)), straight_through(weight, in_e4m3(weight)));
  if (y.requires_grad()) y.register_hook([](const at::Tensor& dy) { return in_e5m2(dy); });
  return y;
}

std::vector<NamedModel> dense_and_mixed_models() {
  std::vector<NamedModel> models = all_models();
  for (NamedModel& mixed : models_with_experts()) models.push_back(std::move(mixed));
  return models;
}

// The other ranks of a group: they have seen magnitudes up to `most_`.
class OtherTensorRanks final : public TensorRanks {
 public:
  explicit OtherTensorRanks(double most) : most_(most) {}

  std::int64_t ranks() const override { return 2; }
  std::int64_t position() const override { return 0; }
  void sum(const at::Tensor&) const override { FAIL("nothing is summed for a scale"); }
  void largest(const at::Tensor& x) const override { x.clamp_min_(most_); }
  at::Tensor gather_rows(const at::Tensor& part) const override { return part; }
  at::Tensor scatter_sum_rows(const at::Tensor& whole) const override { return whole; }

 private:
  double most_;
};

class OtherContextRanks final : public ContextRanks {
 public:
  explicit OtherContextRanks(double most) : most_(most) {}

  KeysAndValues gather(const KeysAndValues& own) const override { return own; }
  void largest(const at::Tensor& x) const override { x.clamp_min_(most_); }
  void scatter_sum(KeysAndValues, const KeysAndValues&) const override {}

 private:
  double most_;
};

// Another rank with columns of the same rows, whose magnitudes are four times as large.
class OtherColumns final : public RowRanks {
 public:
  std::int64_t ranks() const override { return 2; }
  std::int64_t position() const override { return 0; }
  at::Tensor gather_rows(const at::Tensor& part) const override { return at::cat({part, 4 * part}); }
  at::Tensor scatter_sum_rows(const at::Tensor& whole) const override { return whole; }
};

}  // namespace

TEST_CASE("a row's scale is that of its largest magnitude, on any rank that has some of its columns") {
  const at::Tensor x = at::tensor({7.0F, -1.0F, 0.0F, -14.0F, 0.0F, 0.0F}).view({3, 2});
  const OtherColumns others;
  const RowScaling scaling(&others);
  const auto scales = [&](RowScaling::Columns columns) { return scaling.scales(x, kernels::Fp8Format::e4m3, columns); };
  CHECK(at::equal(scales(RowScaling::Columns::whole), at::tensor({64.0F, 32.0F, 1.0F}).view({3, 1})));
  CHECK(at::equal(scales(RowScaling::Columns::split), at::tensor({16.0F, 8.0F, 1.0F}).view({3, 1})));
  const ScaledRows cast = RowScaling::cast(1.01F * x, scales(RowScaling::Columns::whole), kernels::Fp8Format::e4m3);
  // Above the largest payload numbers saturate.
  CHECK(at::equal(cast.widened(at::kFloat).select(1, 0), at::tensor({7.0F, 0.0F, 0.0F})));
  const at::Tensor in_place = 1.01F * x;
  RowScaling::round_in_place(in_place, cast.scales, kernels::Fp8Format::e4m3);
  CHECK(at::equal(in_place, cast.widened(at::kFloat)));
  CHECK(scaling.scales(x.narrow(0, 0, 0), kernels::Fp8Format::e4m3, RowScaling::Columns::whole).numel() == 0);
}

TEST_CASE("rows that are apart have scales of their own, which are those of PyTorch's casts of each row") {
  const Product by_row = [](const at::Tensor& x, const at::Tensor& weight) {
    std::vector<at::Tensor> rows;
    for (const at::Tensor& row : x.flatten(0, -2).unbind(0)) rows.push_back(in_e4m3(row));
    return plain_product(at::stack(rows).view(x.sizes()), in_e4m3(weight));
  };
  for (const NamedModel& named : all_models()) {
    INFO(named.name);
    const PassInput micro = random_input(named.model);
    SmallModel model(named.model, {.type = at::kDouble, .fp8 = true});
    const Expected expected = reference_passes(named.model, model.weights(), micro, {}, by_row);
    const kernels::SeparateRows separate(true);
    CHECK(distance(model.forward(micro, PassMode::evaluation), expected.losses) < 1e-10);
  }
}

TEST_CASE("a scale is that of the largest magnitude on any rank that holds a part of the tensor") {
  const at::Tensor x = at::full({4}, 7.0F);  // 448 ÷ 64
  const auto scale = [&](double tensor, double context, bool is_whole) {
    const OtherTensorRanks tensor_ranks(tensor);
    const OtherContextRanks context_ranks(context);
    const PassContext pass{.mode = is_whole ? PassMode::prediction : PassMode::training};
    const Fp8Scaling scaling(&tensor_ranks, &context_ranks, nullptr);
    return scaling.current({{Fp8Operand::input, x}, {Fp8Operand::weight, x / 2}}, pass);
  };
  CHECK(at::equal(scale(0, 0, false), at::tensor({64.0F, 128.0F})));
  CHECK(at::equal(scale(14, 0, false), at::tensor({32.0F, 32.0F})));
  CHECK(at::equal(scale(0, 5, false), at::tensor({64.0F, 64.0F})));
  // In prediction a context rank has whole sequences and works for itself.
  CHECK(at::equal(scale(0, 14, true), at::tensor({64.0F, 128.0F})));
}

// In float64 both sides round the same numbers; a sum in another order moves one of them over the middle between two
// FP8 numbers with a probability of 1e-15.
// Experts take every token as a row with scales of its own.
TEST_CASE("FP8 products give the losses and gradients of casts before plain products") {
  for (const NamedModel& named : dense_and_mixed_models()) {
    const PassInput micro = random_input(named.model);
    const NamedTensors weights = SmallModel(named.model, {.type = at::kDouble}).weights();
    const Expected expected = reference_passes(named.model, weights, micro, {}, fp8_product);
    for (const AttentionKernel attention : {AttentionKernel::flash, AttentionKernel::math}) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        INFO(named.name << ", attention " << static_cast<int>(attention) << ", recompute "
                        << static_cast<int>(recompute));
        SmallModel model(named.model, {attention, recompute, at::kDouble, {}, true});
        CHECK(distance(model.learn(micro), expected.losses) < 1e-9);
        check_gradients(model.take_gradients(), expected.gradients, 1e-9);
      }
    }
  }
}

TEST_CASE("FP8 products in fp32 and bf16 differ from those in float64 by less than FP8's own rounding") {
  for (const NamedModel& named : all_models()) {
    INFO(named.name);
    const PassInput micro = random_input(named.model);
    const NamedTensors weights = SmallModel(named.model).weights();
    const at::Tensor exact = reference_passes(named.model, weights, micro).losses;
    const at::Tensor expected = reference_passes(named.model, weights, micro, {}, fp8_product).losses;
    const auto error = [&](const at::Tensor& losses, const at::Tensor& of) {
      return ((losses.to(at::kDouble) - of).norm() / of.norm()).item<double>();
    };
    const at::Tensor losses = SmallModel(named.model, {.fp8 = true}).learn(micro);
    CHECK(error(losses, expected) < 0.25 * error(expected, exact));
    CHECK(error(losses, exact) > 0.5 * error(expected, exact));
    const at::Tensor in_bf16 = SmallModel(named.model, {.type = at::kBFloat16, .fp8 = true}).learn(micro);
    CHECK(error(in_bf16, exact) < 2 * error(expected, exact));
  }
}

TEST_CASE("recomputed FP8 operands are bitwise the first ones") {
  for (const NamedModel& named : dense_and_mixed_models()) {
    INFO(named.name);
    const PassInput micro = random_input(named.model);
    const auto gradients = [&](Recompute recompute) {
      SmallModel model(named.model, {.recompute = recompute, .fp8 = true});
      model.learn(micro);
      return model.take_gradients();
    };
    const NamedTensors expected = gradients(Recompute::none);
    check_same_bits(gradients(Recompute::selective), expected);
    check_same_bits(gradients(Recompute::full), expected);
  }
}

// The scales of the three differ so much that one for all would round most of two of them to 0.
TEST_CASE("weights that are stored in FP8 are multiplied as they are, each with its own scale") {
  const Graph graph = Graph::build(llama_model());
  std::vector<std::size_t> matrices;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i)
    for (const char* role : {"query", "key", "value"})
      if (graph.parameters[i].name == std::string("layers.0.attention.") + role + ".weight") matrices.push_back(i);
  REQUIRE(matrices.size() == 3);
  ParameterStore store(graph, matrices);
  // Above E4M3's largest number LibTorch's conversion gives NaN.
  const at::Tensor payload = at::randn({store.elements()}).mul(100).clamp(-448, 448).to(at::kFloat8_e4m3fn);
  const std::vector<float> scales{1, 0x1p12F, 0x1p24F};
  store.attach_scaled_weights(payload, at::tensor(scales), at::kFloat);
  const LinearLayer layer(BoundParameter(store, matrices.front(), matrices.back()), std::nullopt,
                          Fp8Scaling(nullptr, nullptr, nullptr), {});
  const at::Tensor x = at::randn({5, graph.model.hidden_size});
  const PassContext pass;
  const at::Tensor y = layer.forward(layer.keep(x, pass), {1, x.size(0)}, pass).to(at::kDouble);
  std::int64_t first = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const FlatRange& range = store.ranges()[i];
    const std::int64_t rows = (range.end - range.begin) / graph.model.hidden_size;
    const at::Tensor weight =
        payload.slice(0, range.begin, range.end).to(at::kDouble).view({rows, graph.model.hidden_size}) / scales[i];
    const at::Tensor expected = in_e4m3(x).to(at::kDouble).matmul(weight.t());
    CHECK(distance(y.narrow(1, first, rows), expected) < 1e-5);
    first += rows;
  }
}

TEST_CASE("a weight that is infinite shows in the losses of FP8 products") {
  SmallModel model(llama_model(), {.fp8 = true});
  model.weight("layers.0.ffn.down.weight").view({-1})[0] = std::numeric_limits<float>::infinity();
  CHECK(model.forward(random_input(llama_model())).isnan().all().item<bool>());
}

}  // namespace llmtrain::test
