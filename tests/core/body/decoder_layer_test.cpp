// SPDX-License-Identifier: Apache-2.0
// The decoder's layer written as bodies, against its module and its list of operators.
#include <ATen/TensorOperators.h>

#include <catch2/catch.hpp>

#include "core/body/body_writer.h"
#include "core/body/run/body_run.h"
#include "core/graph/operators/body_operators.h"
#include "core/graph/values.h"
#include "core/model/composed_block.h"
#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

using body::AxisId;
using body::Body;
using body::BodyWriter;
using body::ElementwiseKind;
using body::TensorId;

constexpr std::size_t first_layer = 1;
constexpr std::int64_t samples = 3, length = 7;

// Writes halves of a layer of these settings. Parameters have their names in the block.
class LayerWriter {
 public:
  explicit LayerWriter(const LayerSettings& layer, bool has_biases) : layer_(layer), has_biases_(has_biases) {}

  TensorId input() { return w_.input("x", {b_, s_, h_}); }

  TensorId attention_half(TensorId x) {
    const AttentionSettings& attention = layer_.attention;
    const AxisId n = w_.axis("n", attention.heads), d = w_.axis("d", attention.head_dim);
    const AxisId g = attention.kv_heads == attention.heads ? n : w_.axis("g", attention.kv_heads);
    const TensorId normed = norm("attention_norm", x);
    const TensorId query = linear("attention.query", normed, {n, d}, {h_}),
                   key = linear("attention.key", normed, {g, d}, {h_});
    const TensorId value = linear("attention.value", normed, {g, d}, {h_});
    const TensorId mixed = w_.attention({.is_causal = true}, query, key, value);
    return add(x, linear("attention.output", mixed, {h_}, {n, d}));
  }

  TensorId feed_forward_half(TensorId x) {
    const AxisId f = w_.axis("f", layer_.feed_forward.width);
    const TensorId normed = norm("ffn_norm", x);
    return add(x, linear("ffn.down", activated(normed, f), {h_}, {f}));
  }

  Body take(TensorId output) {
    w_.output(output);
    return w_.take();
  }

 private:
  TensorId add(TensorId x, TensorId y) { return w_.elementwise(ElementwiseKind::add, {x, y}); }

  TensorId norm(const std::string& name, TensorId x) {
    const bool is_layer = layer_.norm.kind == NormKind::layernorm;
    const TensorId weight = w_.parameter(name + ".weight", {h_});
    std::optional<TensorId> bias;
    if (is_layer) bias = w_.parameter(name + ".bias", {h_});
    const auto kind = is_layer ? body::NormKind::layer : body::NormKind::root_mean_square;
    return w_.norm({.kind = kind, .epsilon = layer_.norm.epsilon}, x, weight, bias);
  }

  TensorId linear(const std::string& name, TensorId x, const std::vector<AxisId>& to, const std::vector<AxisId>& from) {
    std::vector<AxisId> axes = to, result{b_, s_};
    axes.insert(axes.end(), from.begin(), from.end());
    result.insert(result.end(), to.begin(), to.end());
    const TensorId y = w_.product(x, w_.parameter(name + ".weight", axes), result);
    return has_biases_ ? add(y, w_.parameter(name + ".bias", to)) : y;
  }

  TensorId activated(TensorId normed, AxisId f) {
    switch (layer_.feed_forward.activation) {
      case Activation::swiglu: {
        const TensorId gate = linear("ffn.gate", normed, {f}, {h_});
        return w_.elementwise(ElementwiseKind::swiglu, {gate, linear("ffn.up", normed, {f}, {h_})});
      }
      case Activation::gelu:
        return w_.elementwise(ElementwiseKind::gelu, {linear("ffn.up", normed, {f}, {h_})});
      case Activation::gelu_tanh:
      // None of the models below.
      case Activation::relu:
      case Activation::squared_relu:
      case Activation::geglu:
      case Activation::geglu_tanh:
      case Activation::clamped_swiglu:
        break;
    }
    return w_.elementwise(ElementwiseKind::gelu_tanh, {linear("ffn.up", normed, {f}, {h_})});
  }

  const LayerSettings& layer_;
  bool has_biases_;
  BodyWriter w_;
  AxisId b_ = w_.axis("b", samples), s_ = w_.axis("s", length), h_ = w_.axis("h", layer_.hidden_size);
};

// The weights of a model's first layer as its body's.
class LayerWeights : public body::BodyParameters {
 public:
  LayerWeights(const Body& body, const SmallModel& model) : body_(body), model_(model) {}

  at::Tensor weight(TensorId parameter) const override {
    return model_.weight(name_of(parameter)).view(body_.shape_of(parameter));
  }
  void add_gradient(TensorId parameter, const at::Tensor& gradient) override {
    gradients_[name_of(parameter)] = gradient.reshape(model_.weight(name_of(parameter)).sizes());
  }
  const NamedTensors& gradients() const { return gradients_; }

 private:
  std::string name_of(TensorId parameter) const { return "layers.0." + body_.tensors[parameter].name; }

  const Body& body_;
  const SmallModel& model_;
  NamedTensors gradients_;
};

// Models without rotary positions: GPT-2's layer with either of its activations, and one with gates, groups of heads
// and norms without mean, with and without biases.
std::vector<NamedModel> models_without_rotation() {
  ModelRecipe exact = gpt2_model();
  exact.activation = Activation::gelu;
  ModelRecipe gated = llama_model(), biased = llama_model();
  gated.position = biased.position = Position::learned;
  biased.set_biases(true);
  return {{"gelu_tanh", gpt2_model()}, {"gelu", exact}, {"swiglu, groups", gated}, {"swiglu, biases", biased}};
}

const LayerSettings& layer_of(const Graph& graph) { return *graph.blocks[first_layer].layer(); }

Body layer_body(const Graph& graph) {
  LayerWriter writer(layer_of(graph), graph.model.bias);
  const TensorId x = writer.input();
  return writer.take(writer.feed_forward_half(writer.attention_half(x)));
}

Body half_body(const Graph& graph, LayerHalf half) {
  LayerWriter writer(layer_of(graph), graph.model.bias);
  const TensorId x = writer.input();
  return writer.take(half == LayerHalf::attention ? writer.attention_half(x) : writer.feed_forward_half(x));
}

// In the place of a layer's module, for batches of any shape.
std::unique_ptr<BlockModule> make_composed_layer(const BlockParameters& parameters, const StageOptions& options,
                                                 KeptExchanges* kept) {
  const LayerSettings* layer = parameters.block().layer();
  if (layer == nullptr) return make_block(parameters, options, kept);
  LayerWriter writer(*layer, parameters.has("ffn.up.bias"));
  const TensorId x = writer.input();
  Body body = writer.take(writer.feed_forward_half(writer.attention_half(x)));
  const BodyDescription described{.body = body, .axes = {body.axis_named("b"), body.axis_named("s")}};
  return std::make_unique<ComposedBlock>(parameters, std::move(body), described, options.recompute);
}

struct LayerPasses {
  at::Tensor y, dx;
  NamedTensors gradients;
};

LayerPasses module_passes(SmallModel& model, const at::Tensor& x, const at::Tensor& dy, const PassInput& input) {
  const at::Tensor y = model.forward_of(x, input).clone();
  const Tensors dx = model.stage().backward({dy.clone()}, 0, input.batch, input.context);
  LayerPasses passes{y, dx[0], {}};
  for (auto& [name, gradient] : model.take_gradients())
    if (name.starts_with("layers.0.")) passes.gradients[name] = gradient.clone();
  return passes;
}

LayerPasses body_passes(const SmallModel& model, body::Keeping keeping, const at::Tensor& x, const at::Tensor& dy) {
  const Body body = layer_body(model.graph());
  const body::BodyRun run(body, keeping, [](const std::string&) { return 0; });
  const std::vector<std::int64_t> shape = body.shape_of(0);
  LayerWeights weights(body, model);
  body::BodyRun::Output output = run.forward({x.view(shape)}, {}, weights, {});
  const std::vector<at::Tensor> dx = run.backward({dy.view(shape)}, std::move(output.kept), {}, weights, {});
  return {output.values[0].view(x.sizes()), dx[0].view(x.sizes()), weights.gradients()};
}

// A key's bias moves all scores of a query alike: its gradient is zero but for rounding.
void check_all_but_zero(NamedTensors got, NamedTensors expected, double tolerance) {
  const std::string zero = "layers.0.attention.key.bias";
  if (got.contains(zero)) {
    const double size = got.at("layers.0.attention.value.bias").abs().max().item<double>();
    CHECK(got.at(zero).abs().max().item<double>() <= tolerance * size);
    got.erase(zero);
    expected.erase(zero);
  }
  check_gradients(got, expected, tolerance);
}

PassSetting setting_of(Recompute recompute) {
  PassSetting setting;
  setting.tokens.batch = samples;
  setting.tokens.sequence_length = length;
  setting.recompute = recompute;
  return setting;
}

OperatorList module_operators(const Graph& graph, LayerHalf half, Recompute recompute) {
  OperatorList operators = block_operators(graph, first_layer, setting_of(recompute));
  if (half != LayerHalf::none) std::erase_if(operators, [&](const Operator& item) { return item.half != half; });
  return operators;
}

}  // namespace

TEST_CASE("a decoder's layer written as a body equals its module, and so do all gradients") {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    // Sums of a few dozen terms, in another order where one product makes what the body makes in several.
    const double tolerance = type == at::kFloat ? 1e-6 : 1e-14;
    for (const NamedModel& named : models_without_rotation()) {
      SmallModel model(named.model, {.type = type, .blocks = {first_layer}});
      const PassInput input = random_input(named.model, 1, samples, length);
      const std::int64_t rows = samples * length, hidden = named.model.hidden_size;
      const at::Tensor x = wave(rows, hidden, 0.3).to(type), dy = wave(rows, hidden, 1.1).to(type);
      const LayerPasses expected = module_passes(model, x, dy, input);
      for (const body::Keeping keeping : {body::Keeping::all, body::Keeping::costly, body::Keeping::inputs}) {
        INFO(named.name << " in " << at::toString(type) << ", keeping " << static_cast<int>(keeping));
        const LayerPasses got = body_passes(model, keeping, x, dy);
        CHECK(distance(got.y, expected.y) <= tolerance);
        CHECK(distance(got.dx, expected.dx) <= tolerance);
        check_all_but_zero(got.gradients, expected.gradients, tolerance);
      }
    }
  }
}

TEST_CASE("a model whose layers are composed of primitives learns what it learns with its modules") {
  for (const NamedModel& named : models_without_rotation()) {
    PassInput input = random_input(named.model, 1, samples + 1, length - 1);
    // Two sequences of one document each, one of two, and one whose end is padding.
    if (named.model.bias) input.batch.sequences().documents = {{0, 6}, {6, 6}, {12, 2}, {14, 4}, {18, 5}, {23, 1}};
    SmallModel model(named.model);
    model.learn(input);
    const at::Tensor losses = model.learn(input).clone();
    const NamedTensors gradients = model.take_gradients();
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      INFO(named.name << ", recompute " << static_cast<int>(recompute));
      SmallModel composed(named.model, {.recompute = recompute, .make = make_composed_layer});
      // Gradients of two micro-batches are added up.
      composed.learn(input);
      CHECK(distance(composed.learn(input), losses) <= 1e-6);
      NamedTensors got = composed.take_gradients(), expected = gradients;
      for (const char* layer : {"layers.0", "layers.1"}) {
        got.erase(layer + std::string(".attention.key.bias"));
        expected.erase(layer + std::string(".attention.key.bias"));
      }
      // Through two layers and the head.
      check_gradients(got, expected, 3e-6);
    }
  }
}

TEST_CASE("bodies of a decoder's halves have the FLOPs and kept bytes of the lists beside its modules") {
  for (const NamedModel& named : models_without_rotation()) {
    const Graph graph = Graph::build(named.model);
    const OperatorList layer = priced(layer_body(graph), 4);
    const OperatorList attention = priced(half_body(graph, LayerHalf::attention), 4);
    const OperatorList feed_forward = priced(half_body(graph, LayerHalf::feed_forward), 4);
    for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
      INFO(named.name << ", recompute " << static_cast<int>(recompute));
      const OperatorList module_layer = module_operators(graph, LayerHalf::none, recompute);
      CHECK(forward_flops(layer) == forward_flops(module_layer));
      CHECK(backward_flops(layer) == backward_flops(module_layer));
      CHECK(saved_bytes(layer, recompute) == saved_bytes(module_layer, recompute));
      CHECK(kept_input_bytes(layer, recompute, 0) == kept_input_bytes(module_layer, recompute, 0));
      // A layer under full recompute keeps one input, two halves apart would keep one each.
      if (recompute == Recompute::full) continue;
      const OperatorList module_attention = module_operators(graph, LayerHalf::attention, recompute);
      CHECK(forward_flops(attention) == forward_flops(module_attention));
      CHECK(saved_bytes(attention, recompute) == saved_bytes(module_attention, recompute));
      const OperatorList module_feed_forward = module_operators(graph, LayerHalf::feed_forward, recompute);
      CHECK(forward_flops(feed_forward) == forward_flops(module_feed_forward));
      CHECK(saved_bytes(feed_forward, recompute) == saved_bytes(module_feed_forward, recompute));
    }
  }
}

}  // namespace llmtrain::test
