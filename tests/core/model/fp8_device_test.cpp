// SPDX-License-Identifier: Apache-2.0
// Linear layers whose FP8 numbers the emulated GPU multiplies, against those that a processor widens.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "core/graph/fp8_products.h"
#include "core/model/layers/fp8_statistics.h"
#include "core/model/layers/layers.h"
#include "tests/core/model/small_model.h"

namespace llmtrain::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// How the weights are stored: as they are, in fp16 (from O1 on) or in E4M3 (O3), the latter with a scale each.
enum class Stored { plain, fp16, e4m3 };

std::vector<std::size_t> matrices_of(const Graph& graph, const std::vector<std::string>& roles) {
  std::vector<std::size_t> matrices;
  for (std::size_t i = 0; i < graph.parameters.size(); ++i)
    for (const std::string& role : roles)
      if (graph.parameters[i].name == "layers.0.attention." + role + ".weight") matrices.push_back(i);
  return matrices;
}

// What a layer's passes give, on the CPU in float64.
struct Passes {
  at::Tensor y, dx, dweight;
  std::vector<double> largest;
};

struct Layer {
  at::ScalarType type;
  Stored stored;
  std::vector<std::string> roles;
  bool has_history;
};

// Two micro-batches: the second one's gradient is added.
Passes passes_of(const Graph& graph, const Layer& of, const at::Device& device) {
  at::Generator generator = at::detail::createCPUGenerator(7);
  const auto random = [&](at::IntArrayRef sizes) { return at::randn(sizes, generator); };
  const std::vector<std::size_t> matrices = matrices_of(graph, of.roles);
  ParameterStore store(graph, matrices);
  const at::Tensor scales = at::tensor({0x1p9F, 0x1p10F, 0x1p11F}).slice(0, 0, std::ssize(matrices));
  at::Tensor flat = random({store.elements()}) * 0.1;
  for (std::size_t i = 0; i < matrices.size(); ++i)
    if (of.stored != Stored::plain)
      flat.slice(0, store.ranges()[i].begin, store.ranges()[i].end).mul_(scales[static_cast<std::int64_t>(i)]);
  if (of.stored == Stored::plain) {
    store.attach_weights(flat.to(of.type).to(device));
  } else {
    const auto small = of.stored == Stored::fp16 ? at::kHalf : at::kFloat8_e4m3fn;
    store.attach_scaled_weights(flat.clamp(-448, 448).to(small).to(device), scales.to(device), of.type);
  }
  const at::TensorOptions options = at::dtype(at::kFloat).device(device);
  store.set_gradient_source([&] { return at::full({store.elements()}, infinity, options); });

  Fp8History history(fp8_products(graph), {Fp8ScalingMethod::delayed, 4, 0});
  PassContext pass;
  pass.backward_scale = 8;
  if (of.has_history) {
    for (std::size_t i = 0; i < history.products().size(); ++i) history.set_state(i, {{3, 0.25, 2}, {}});
    pass.recorders.fp8_history = &history;
  }
  const LinearLayer layer(BoundParameter(store, matrices.front(), matrices.back()), std::nullopt,
                          Fp8Scaling(nullptr, nullptr, nullptr).of(matrices.front()), {});
  const std::int64_t columns = store.fused_weight(matrices.front(), matrices.back()).size(1);
  const Sequences tokens{1, 5};
  Passes passes;
  for (int batch = 0; batch < 2; ++batch) {
    const LinearInput input = layer.keep(random({5, columns}).to(of.type).to(device), pass);
    passes.y = layer.forward(input, tokens, pass).cpu().to(at::kDouble);
    const at::Tensor dy = random(passes.y.sizes()).to(of.type).to(device);
    // Turned together with the cast, and afterwards, as where rows are gathered.
    const auto rows = batch == 0 ? LinearLayer::GradientRows::all : LinearLayer::GradientRows::some;
    passes.dx = layer.backward(layer.scaled_gradient(dy, pass, rows), input, tokens, pass).cpu().to(at::kDouble);
  }
  passes.dweight = store.take_gradients().cpu().to(at::kDouble);
  passes.largest = take_largest(history);
  return passes;
}

}  // namespace

TEST_CASE("a GPU multiplies the FP8 numbers that a processor widens") {
  const Graph graph = Graph::build(llama_model());
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const auto stored = GENERATE(Stored::plain, Stored::fp16, Stored::e4m3);
  const bool has_history = GENERATE(false, true);
  const std::vector<std::string> one{"output"}, three{"query", "key", "value"};
  for (const auto& roles : {one, three}) {
    INFO(type << ", stored " << static_cast<int>(stored) << ", history " << has_history << ", " << roles.size());
    const Layer layer{type, stored, roles, has_history};
    const Passes got = passes_of(graph, layer, at::kCUDA), expected = passes_of(graph, layer, at::kCPU);
    // Matrices with scales of their own are multiplied with one, which rounds the smallest numbers again.
    const double rounded = stored == Stored::e4m3 && roles.size() > 1 ? 1e-4 : 0;
    const double tolerance = (type == at::kFloat ? 1e-5 : 1e-2) + rounded;
    CHECK(distance(got.y, expected.y) < tolerance);
    CHECK(distance(got.dx, expected.dx) < tolerance);
    CHECK(distance(got.dweight, expected.dweight) < 1e-5);
    CHECK(got.largest == expected.largest);
  }
}

TEST_CASE("on a GPU, too, what is not finite shows with delayed scales and leaves a mark in the history") {
  const Graph graph = Graph::build(llama_model());
  const std::size_t matrix = matrices_of(graph, {"output"}).front();
  Fp8History history(fp8_products(graph), {Fp8ScalingMethod::delayed, 4, 0});
  for (std::size_t i = 0; i < history.products().size(); ++i) history.set_state(i, {{1, 1, 1}, {}});
  PassContext pass;
  pass.recorders.fp8_history = &history;
  const Fp8Scaling scaling = Fp8Scaling(nullptr, nullptr, nullptr).of(matrix);
  at::Tensor x = at::ones({4, 16}, at::dtype(at::kFloat).device(at::kCUDA));
  const auto cast = [&] {
    return scaling.cast({Fp8Operand::input, x}, *scaling.delayed({Fp8Operand::input}, pass, x.device()), pass);
  };
  CHECK(cast().widened(at::kFloat).cpu().equal(at::ones({4, 16})));
  x[2][3] = infinity;
  CHECK(cast().widened(at::kFloat).isnan().all().item<bool>());
  const std::vector<double> largest = take_largest(history);
  CHECK(std::ranges::count(largest, infinity) == 1);
  CHECK(take_largest(history) == std::vector<double>(largest.size(), 0));
  // A step's scales reach the GPU, and the next step's do.
  std::vector<double> maxima(largest.size(), 7);
  for (const float scale : {64.0F, 32.0F}) {
    history.record(maxima);
    CHECK(scaling.delayed({Fp8Operand::input}, pass, x.device())->item<float>() == scale);
    maxima.assign(maxima.size(), 14);
  }
}

TEST_CASE("a GPU's statistics of casts are a processor's") {
  at::Generator generator = at::detail::createCPUGenerator(3);
  const at::Tensor x = at::randn({300, 200}, generator).to(GENERATE(at::kFloat, at::kBFloat16)),
                   wide = x.to(at::kFloat);
  const at::Tensor large = at::full({1}, 256.0F), small = at::full({1}, 4.0F);
  const at::Tensor payload = kernels::cast_to_fp8(wide, large, kernels::Fp8Format::e4m3);
  const auto statistics_on = [&](const at::Device& device) {
    Fp8Statistics statistics;
    statistics.add(Fp8Tensors::inputs, x.to(device), large.to(device), kernels::Fp8Format::e4m3);
    statistics.add(Fp8Tensors::inputs, x.to(device), small.to(device), kernels::Fp8Format::e4m3);
    statistics.add(Fp8Tensors::output_gradients, x.to(device), small.to(device), kernels::Fp8Format::e5m2);
    statistics.add_cast(Fp8Tensors::gradient_sums, wide.to(device).flatten(), payload.to(device).flatten(),
                        large.to(device));
    return statistics.of_kinds();
  };
  const Fp8Statistics::Kinds got = statistics_on(at::kCUDA), expected = statistics_on(at::kCPU);
  for (std::size_t kind = 0; kind < expected.size(); ++kind) {
    INFO(fp8_tensor_words[kind]);
    CHECK(got[kind].amax == expected[kind].amax);
    CHECK(got[kind].smallest_scale == expected[kind].smallest_scale);
    CHECK(got[kind].largest_scale == expected[kind].largest_scale);
    CHECK(got[kind].elements == expected[kind].elements);
    CHECK(got[kind].saturated == expected[kind].saturated);
    CHECK(got[kind].underflowed == expected[kind].underflowed);
    CHECK(got[kind].signal == Approx(expected[kind].signal).epsilon(1e-12));
    CHECK(got[kind].noise == Approx(expected[kind].noise).epsilon(1e-12));
  }
  CHECK(expected[0].saturated > 0);
}

}  // namespace llmtrain::test
