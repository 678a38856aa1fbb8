// SPDX-License-Identifier: Apache-2.0
#include "tests/core/model/small_model.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace llmtrain::test {
namespace {

at::Tensor end_of(const StagePasses::Output& output) {
  if (!output.losses.empty()) return output.losses.back().rows;
  return output.logits.defined() ? output.logits : output.values.front();
}

bool is_norm_weight(const Parameter& parameter) { return parameter.initialization == Initialization::ones; }

}  // namespace

std::vector<std::size_t> indices_below(std::size_t count) {
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return indices;
}

ModelRecipe gpt2_model() {
  ModelRecipe model;
  model.layers = 2;
  model.hidden_size = 20;
  model.heads = model.kv_heads = 3;
  model.head_dim = 6;
  model.ffn_hidden_size = 34;
  model.vocab_size = 37;
  model.max_sequence_length = 12;
  model.activation = Activation::gelu_tanh;
  return model;
}

ModelRecipe llama_model() {
  ModelRecipe model = gpt2_model();
  model.architecture = Architecture::llama;
  model.heads = 4;
  model.kv_heads = 2;
  model.activation = Activation::swiglu;
  model.norm = NormKind::rmsnorm;
  model.norm_eps = 1e-6;
  model.position = Position::rope;
  model.set_biases(false);
  model.tie_embeddings = false;
  return model;
}

ModelRecipe qwen_model() {
  ModelRecipe model = llama_model();
  model.kv_heads = 1;
  model.rope_theta = 1e6;
  model.qk_norm = model.tie_embeddings = true;
  return model;
}

ModelRecipe mixed_model() {
  ModelRecipe model = llama_model();
  model.norm = NormKind::layernorm;
  model.set_biases(true);
  model.qk_norm = true;
  return model;
}

std::vector<NamedModel> all_models() {
  ModelRecipe exact_gelu = gpt2_model();
  exact_gelu.activation = Activation::gelu;
  exact_gelu.tie_embeddings = exact_gelu.bias = false;
  ModelRecipe relu = exact_gelu, squared = exact_gelu, gelu_gate = llama_model(), tanh_gate = qwen_model(),
              clamped = mixed_model();
  relu.activation = Activation::relu;
  squared.activation = Activation::squared_relu;
  gelu_gate.activation = Activation::geglu;
  tanh_gate.activation = Activation::geglu_tanh;
  clamped.activation = Activation::clamped_swiglu;
  // Values at which the keys that are read matter, and others do not do.
  ModelRecipe other_constants = qwen_model();
  other_constants.norm_eps = 0.3;
  other_constants.rope_theta = 7;
  ModelRecipe local = llama_model(), sinks = gpt2_model();
  local.sliding_window = {.tokens = 3, .global_every = 2, .rope_theta = 50};
  local.attention_scale = 0.7;
  sinks.sliding_window = {.tokens = 2, .global_every = 2};
  sinks.attention_sinks = true;
  ModelRecipe two_norms = mixed_model(), one_norm = gpt2_model(), post_norms = qwen_model(),
              no_positions = llama_model();
  two_norms.parallel_residual = ParallelResidual::two_norms;
  one_norm.parallel_residual = ParallelResidual::one_norm;
  one_norm.embedding_scale = 1.7;
  post_norms.post_norms = true;
  post_norms.embedding_scale = 4.5;
  no_positions.position = Position::none;
  no_positions.post_norms = true;
  return {{"halves of one input", two_norms},
          {"halves of one norm, scaled embeddings", one_norm},
          {"norms behind halves, scaled embeddings", post_norms},
          {"no positions", no_positions},
          {"gpt2", gpt2_model()},
          {"llama", llama_model()},
          {"qwen", qwen_model()},
          {"mixed", mixed_model()},
          {"exact gelu", exact_gelu},
          {"other constants", other_constants},
          {"relu", relu},
          {"squared relu", squared},
          {"geglu", gelu_gate},
          {"geglu_tanh", tanh_gate},
          {"clamped swiglu", clamped},
          {"local layers", local},
          {"sinks", sinks}};
}

ModelRecipe with_experts(ModelRecipe model) {
  MixtureOfExpertsRecipe moe;
  moe.experts = 8;
  moe.top_k = 2;
  moe.capacity_factor = 0;
  moe.ffn_hidden_size = 14;
  moe.normalize_gates = true;
  // Coefficients at which the losses are a large part of the router's gradient.
  moe.balance_coefficient = 0.7;
  moe.z_coefficient = 0.05;
  model.moe = moe;
  return model;
}

std::vector<NamedModel> models_with_experts() {
  ModelRecipe one = with_experts(gpt2_model()), shared = with_experts(mixed_model()), all = with_experts(llama_model());
  one.moe->top_k = 1;
  one.moe->normalize_gates = false;
  shared.moe->shared_experts = 2;
  shared.moe->every = 2;
  ModelRecipe gated = with_experts(llama_model());
  gated.moe->shared_experts = 1;
  gated.moe->shared_gate = true;
  shared.moe->balance_loss = BalanceLoss::none;
  ModelRecipe cosine = with_experts(gpt2_model());
  cosine.moe->router = Router::cosine;
  all.moe->experts = all.moe->top_k = 3;
  all.moe->normalize_gates = false;
  all.moe->z_coefficient = 0;
  return {{"two of eight, biases", with_experts(gpt2_model())},
          {"two of eight, swiglu", with_experts(llama_model())},
          {"one of eight", one},
          {"shared experts, every second layer, biases with swiglu", shared},
          {"a gated shared expert", gated},
          {"all of three", all},
          {"cosine router", cosine}};
}

PassInput random_input(const ModelRecipe& model, std::uint64_t seed, std::int64_t batch, std::int64_t sequence) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const auto draw = [&] { return at::randint(model.vocab_size, {batch * sequence}, generator, at::kLong); };
  PassInput input;
  input.batch.field(BatchField::token_ids) = draw();
  input.batch.field(BatchField::targets) = draw();
  input.batch.rows = {{.count = batch, .length = sequence}};
  input.context = {.seed = 99, .step = 3, .first_sample = 4, .loss_gradients = {1.0 / 50}, .batch_rows = 60};
  return input;
}

at::Tensor wave(std::int64_t rows, std::int64_t width, double phase) {
  return at::sin(at::arange(rows * width, at::kDouble) * 1.7 + phase).to(at::kFloat).view({rows, width});
}

SmallModel::SmallModel(Graph graph, const Options& options) : graph_(std::move(graph)), rope_(graph_, at::kCPU) {
  store_ = std::make_unique<ParameterStore>(graph_, indices_below(graph_.parameters.size()));
  at::Generator generator = at::detail::createCPUGenerator(7);
  flat_ = at::randn({store_->elements()}, generator, at::kDouble).mul_(0.3).to(options.type);
  for (const FlatRange& range : store_->ranges())
    if (is_norm_weight(graph_.parameters[range.parameter])) flat_.slice(0, range.begin, range.end).add_(1);
  store_->attach_weights(flat_);
  store_->set_gradient_source([elements = store_->elements(), type = options.type] {
    return at::full({elements}, std::numeric_limits<double>::quiet_NaN(), type);
  });
  stores_.add(*store_);
  const std::vector<std::size_t> blocks = options.blocks.empty() ? indices_below(graph_.blocks.size()) : options.blocks;
  StageOptions stage;
  stage.attention = options.attention;
  stage.recompute = options.recompute;
  stage.rope = &rope_;
  stage.fp8 = options.fp8;
  stage.fp8_history = options.fp8_history;
  stage.make = options.make;
  stage_ = std::make_unique<StageModule>(graph_, blocks, stores_, stage);
}

at::Tensor SmallModel::weight(const std::string& name) const {
  for (std::size_t i = 0; i < graph_.parameters.size(); ++i)
    if (graph_.parameters[i].name == name) return store_->weight(i);
  FAIL("the model has no parameter " << name);
  return {};
}

NamedTensors SmallModel::weights() const {
  NamedTensors copies;
  for (const Parameter& parameter : graph_.parameters)
    copies[parameter.name] = weight(parameter.name).to(at::kDouble, false, true);
  return copies;
}

NamedTensors SmallModel::take_gradients() {
  const at::Tensor flat = store_->take_gradients();
  NamedTensors gradients;
  for (const FlatRange& range : store_->ranges()) {
    const Parameter& parameter = graph_.parameters[range.parameter];
    gradients[parameter.name] = flat.slice(0, range.begin, range.end).view(parameter.shape);
  }
  return gradients;
}

at::Tensor SmallModel::forward(const PassInput& input, PassMode mode, std::int64_t index) {
  PassContext context = input.context;
  context.mode = mode;
  return end_of(stage_->forward({}, index, input.batch, context));
}

at::Tensor SmallModel::forward_of(const at::Tensor& x, const PassInput& input, std::int64_t index) {
  return end_of(stage_->forward({x}, index, input.batch, input.context));
}

at::Tensor SmallModel::learn(const PassInput& input) {
  at::Tensor losses = forward(input);
  stage_->backward({}, 0, input.batch, input.context);
  return losses;
}

double tolerance_of(at::ScalarType type) { return type == at::kDouble ? 1e-10 : 2e-5; }

at::Tensor by_sequence(const at::Tensor& rows, const PassInput& input) {
  std::vector<std::int64_t> shape = rows.sizes().vec();
  shape[0] = input.batch.sequences().length;
  shape.insert(shape.begin(), input.batch.sequences().count);
  return rows.view(shape);
}

Expected reference_passes(const ModelRecipe& recipe, const NamedTensors& weights, const PassInput& input,
                          const DropoutMasks& masks, const Product& product, const NamedTensors& experts) {
  const NamedTensors parameters = differentiable(weights);
  ReferenceModel model(recipe, parameters, masks, product);
  model.use_experts(experts);
  at::Tensor losses =
      model.losses_of(by_sequence(tokens_of(input), input), by_sequence(targets_of(input), input)).flatten();
  const at::Tensor& counted = input.batch.field(BatchField::counted_rows);
  if (counted.defined()) losses = losses * at::zeros_like(losses).index_fill(0, counted, 1);
  // The routers' losses are means over the micro-batch's tokens, which are a share of the global batch.
  const double share = static_cast<double>(input.batch.sequences().rows()) / input.context.batch_rows;
  (losses.sum() * input.context.loss_gradients[0] + share * model.router_losses()).backward();
  return {losses.detach(), gradients_of(parameters), model.dropped()};
}

NamedTensors differentiable(const NamedTensors& parameters) {
  NamedTensors copies;
  for (const auto& [name, tensor] : parameters) copies[name] = tensor.to(at::kDouble, false, true).requires_grad_();
  return copies;
}

NamedTensors gradients_of(const NamedTensors& parameters) {
  NamedTensors gradients;
  for (const auto& [name, tensor] : parameters)
    gradients[name] = tensor.grad().defined() ? tensor.grad() : at::zeros_like(tensor);
  return gradients;
}

RoutingSums SmallModel::take_routing() {
  const at::Tensor sums = stage_->take_routing();
  RoutingValues values{};
  if (sums.defined()) std::copy_n(sums.cpu().const_data_ptr<double>(), values.size(), values.begin());
  return sums_of(values);
}

RoutingCounts SmallModel::take_routing_counts() {
  RoutingCounts counts;
  for (const at::Tensor& chosen : stage_->take_chosen()) {
    std::vector<double>& layer = counts.emplace_back();
    if (chosen.defined())
      layer.assign(chosen.const_data_ptr<double>(), chosen.const_data_ptr<double>() + chosen.numel());
  }
  return counts;
}

std::vector<double> take_largest(Fp8History& history) {
  const at::Tensor largest = history.take_largest().cpu().to(at::kDouble);
  std::vector<double> numbers(largest.const_data_ptr<double>(), largest.const_data_ptr<double>() + largest.numel());
  for (double& each : numbers)
    if (std::isnan(each)) each = std::numeric_limits<double>::infinity();
  return numbers;
}

double distance(const at::Tensor& got, const at::Tensor& expected) {
  REQUIRE(got.sizes() == expected.sizes());
  const at::Tensor exact = expected.detach().to(at::kDouble);
  return (got.to(at::kDouble) - exact).abs().max().item<double>() / exact.abs().max().item<double>();
}

void check_gradients(const NamedTensors& got, const NamedTensors& expected, double tolerance) {
  REQUIRE(got.size() == expected.size());
  double largest = 0;
  for (const auto& [name, gradient] : expected) largest = std::max(largest, gradient.abs().max().item<double>());
  for (const auto& [name, gradient] : expected) {
    INFO(name);
    REQUIRE(got.at(name).sizes() == gradient.sizes());
    const double own = gradient.abs().max().item<double>();
    const double size = own > 1e-12 * largest ? own : largest;
    const double error = (got.at(name).to(at::kDouble) - gradient).abs().max().item<double>();
    CHECK(error <= tolerance * size);
  }
}

void check_same_bits(const NamedTensors& got, const NamedTensors& expected) {
  REQUIRE(got.size() == expected.size());
  for (const auto& [name, gradient] : expected) {
    INFO(name);
    CHECK(at::equal(got.at(name), gradient));
  }
}

}  // namespace llmtrain::test
