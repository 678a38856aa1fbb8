// SPDX-License-Identifier: Apache-2.0
// Gradients in E4M3 and weights in fp16, each tensor with a scale, against casts with LibTorch's types.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tests/parallel/shard/shard_rank.h"

namespace llmtrain::test {
namespace {

Recipe fp8_recipe(std::int64_t zero_stage = 0) {
  Recipe recipe = small_recipe();
  recipe.model.hidden_size = 48;
  recipe.model.ffn_hidden_size = 80;
  recipe.parallel.zero_stage = zero_stage;
  recipe.precision.fp8_level = Fp8Level::o1;
  // The first moment is then the gradient itself.
  recipe.training.optimizer.beta1 = 0;
  return recipe;
}

// Magnitudes differ from tensor to tensor and from rank to rank.
at::Tensor random_gradients(const ShardRank& rank, int position) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(position) + 1);
  const at::Tensor flat = at::randn({rank.store.elements()}, generator, at::kFloat);
  double size = 1e-6 * std::pow(3.0, position);
  for (const FlatRange& range : rank.store.ranges()) flat.slice(0, range.begin, range.end).mul_(size *= 7);
  return flat;
}

// Each rank's gradients are cast, their sum is rounded again, all with one scale: the largest power of two with which
// no rank's gradient becomes E4M3's largest number, 448, which those from 432 on do.
at::Tensor expected_sum(const ShardRank& rank, int ranks) {
  const at::Tensor result = at::zeros({rank.store.elements()}, at::kFloat);
  for (const FlatRange& range : rank.store.ranges()) {
    std::vector<at::Tensor> gradients;
    double largest = 0;
    for (int position = 0; position < ranks; ++position) {
      gradients.push_back(random_gradients(rank, position).slice(0, range.begin, range.end));
      largest = std::max(largest, gradients.back().abs().max().item<double>());
    }
    // At first each rank has a share of the range.
    const double headroom = std::exp2(std::floor(std::log2(1.0 / ranks)));
    const double scale = headroom * std::exp2(std::floor(std::log2(432 / 1.0001 / largest)));
    at::Tensor sum = at::zeros({range.end - range.begin}, at::kFloat);
    for (const at::Tensor& own : gradients) sum = sum + (own * scale).to(at::kFloat8_e4m3fn).to(at::kFloat);
    const at::Tensor payload = sum.clamp(-448, 448).to(at::kFloat8_e4m3fn).to(at::kFloat);
    result.slice(0, range.begin, range.end).copy_(payload / scale);
  }
  return result;
}

Part first_moment(ShardRank& rank) {
  rank.parameters.update(0, 1, 1);
  return {rank.parameters.owned(), rank.parameters.optimizer_states().front().values.clone()};
}

struct Reduced {
  Part part;
  double squares = 0;
  at::Tensor expected, exact;
};

Reduced reduced(ShardRank& rank) {
  const int ranks = rank.groups.data.ranks();
  reduce_gradients(rank, random_gradients(rank, rank.groups.data.position()));
  const double squares = rank.parameters.squares().item<double>();
  at::Tensor exact = at::zeros({rank.store.elements()}, at::kDouble);
  for (int position = 0; position < ranks; ++position) exact += random_gradients(rank, position);
  return {first_moment(rank), squares, expected_sum(rank, ranks), exact};
}

// The average over the tensors, in dB.
double signal_to_noise(const ShardRank& rank, const at::Tensor& got, const at::Tensor& exact) {
  double sum = 0;
  for (const FlatRange& range : rank.store.ranges()) {
    const at::Tensor signal = exact.slice(0, range.begin, range.end);
    const at::Tensor noise = got.slice(0, range.begin, range.end).to(at::kDouble) - signal;
    sum += 20 * std::log10((signal.norm() / noise.norm()).item<double>());
  }
  return sum / static_cast<double>(rank.store.ranges().size());
}

}  // namespace

TEST_CASE("FP8 gradients are the casts of all ranks, summed in fp32 and rounded once", "[ranks]") {
  for (const auto& [ranks, zero_stage] : {std::pair{1, 0}, {2, 0}, {3, 1}, {4, 0}, {4, 1}, {3, 2}, {4, 3}}) {
    INFO(ranks << " ranks, ZeRO-" << zero_stage);
    const auto results = on_ranks(fp8_recipe(zero_stage), ranks, reduced);
    std::vector<Part> parts;
    double squares = 0;
    for (const Reduced& result : results) {
      parts.push_back(result.part);
      squares += result.squares;
    }
    const at::Tensor expected = results.front().expected;
    CHECK(join(parts, expected.numel()).equal(expected));
    CHECK(squares == Approx(expected.to(at::kDouble).square().sum().item<double>()).epsilon(1e-6));
  }
}

// A normal number is rounded to four binary digits: 31.5 dB. Sums of several ranks are rounded a second time, which
// doubles the noise. Less than the format has would be a scale too small or too large.
TEST_CASE("the noise of FP8 gradients is that of the format") {
  for (const int ranks : {1, 4}) {
    const auto noise = on_ranks(fp8_recipe(), ranks, [](ShardRank& rank) {
      const Reduced result = reduced(rank);
      return signal_to_noise(rank, result.part.values, result.exact);
    });
    CHECK(noise.front() == Approx(ranks == 1 ? 31.5 : 31.5 - 10 * std::log10(2)).margin(1));
  }
}

// Each rank has the gradient of its own query heads, whose sum neither saturates nor is rounded twice.
TEST_CASE("gradients of key-value heads that several ranks hold are summed before they become FP8", "[ranks]") {
  Recipe recipe = fp8_recipe(GENERATE(0, 1, 3));
  recipe.parallel.tensor = 2;
  recipe.model.kv_heads = 1;
  const auto wrong = on_ranks(recipe, 4, [](ShardRank& rank) {
    reduce_gradients(rank, at::ones({rank.store.elements()}));
    const Part part = first_moment(rank);
    std::vector<std::string> names;
    for (const FlatRange& range : rank.store.ranges()) {
      const FlatInterval here = intersection({range.begin, range.end}, part.place);
      if (here.count() == 0) continue;
      const std::string& name = rank.graph.parameters[range.parameter].name;
      const bool is_held_twice = name.find("key") != std::string::npos || name.find("value") != std::string::npos;
      // Two data ranks.
      const double expected = is_held_twice ? 4 : 2;
      const at::Tensor values = part.values.slice(0, here.begin - part.place.begin, here.end - part.place.begin);
      if (!values.eq(expected).all().item<bool>()) names.push_back(name);
    }
    return names;
  });
  for (const std::vector<std::string>& names : wrong) CHECK(names == std::vector<std::string>());
}

TEST_CASE("where sums saturate the headroom is halved, and else it doubles over 1,000 steps", "[ranks]") {
  const std::int64_t zero_stage = GENERATE(0, 1, 3);
  // 1 becomes 256, and four of them 1,024.
  const auto states = on_ranks(fp8_recipe(zero_stage), 4, [](ShardRank& rank) {
    std::vector<float> found;
    const at::Tensor ones = at::ones({rank.store.elements()});
    for (std::size_t i = 0; i < rank.store.ranges().size(); ++i) rank.parameters.scales()->set_state(i, {{1}, 1});
    for (int step = 0; step < 4; ++step) {
      reduce_gradients(rank, ones);
      found.push_back(rank.parameters.scales()->state(2).headroom);
      found.push_back(first_moment(rank).values[0].item<float>());
    }
    return found;
  });
  const float growth = std::exp2(1 / 1000.0F);
  for (const std::vector<float>& found : states) {
    CHECK(found[0] == 0.5F);
    CHECK(found[1] == 448 / 256.0F);
    CHECK(found[2] == 0.25F);
    CHECK(found[3] == 448 / 128.0F);
    // 64 · 4 fits.
    CHECK(found[4] == Approx(0.25F * growth));
    CHECK(found[5] == 4);
    CHECK(found[6] == Approx(0.25F * growth * growth));
    CHECK(found[7] == 4);
  }
}

TEST_CASE("without auto-scaling the headroom is a function of the ranks alone", "[ranks]") {
  struct Expected {
    GradientScaling scaling;
    float headroom, sum;
  };
  // Ones become 256 · headroom. Six of them: 1,536 · headroom saturates at 448, as 1 ÷ √6 is rounded to 2⁻².
  for (const auto& [scaling, headroom, sum] : {Expected{GradientScaling::post, 1, 448 / 256.0F},
                                               {GradientScaling::inverse_root, 1 / std::sqrt(6.0F), 6},
                                               {GradientScaling::pre, 1 / 6.0F, 6}}) {
    Recipe recipe = fp8_recipe(1);
    recipe.precision.gradient_scaling = scaling;
    const auto found = on_ranks(recipe, 6, [](ShardRank& rank) {
      const at::Tensor ones = at::ones({rank.store.elements()});
      rank.parameters.scales()->set_state(2, {{1}, 0.125F});
      for (int step = 0; step < 3; ++step) reduce_gradients(rank, ones);
      read_saturated(rank);
      const SaturatedSums saturated = rank.parameters.scales()->saturated();
      return std::array{rank.parameters.scales()->state(2).headroom, first_moment(rank).values[0].item<float>(),
                        static_cast<float>(saturated.saturated / saturated.elements)};
    });
    for (const auto& [kept, first, saturated] : found) {
      CHECK(kept == headroom);
      CHECK(first == sum);
      CHECK(saturated == (scaling == GradientScaling::post ? 1 : 0));
    }
  }
}

TEST_CASE("a gradient that is not finite on one rank is not hidden by saturation", "[ranks]") {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const auto squares = on_ranks(fp8_recipe(), 2, [&](ShardRank& rank) {
      at::Tensor gradients = random_gradients(rank, 0);
      if (rank.groups.data.position() == 1) gradients[7] = bad;
      reduce_gradients(rank, gradients);
      return rank.parameters.squares().item<double>();
    });
    CHECK(std::isnan(squares[0] + squares[1]));
  }
}

TEST_CASE("weights that have grown out of their scale get another and keep their values", "[ranks]") {
  const std::int64_t zero_stage = GENERATE(0, 1, 2, 3);
  const auto errors = on_ranks(fp8_recipe(zero_stage), 2, [](ShardRank& rank) {
    rank.parameters.initialize(3);
    const auto step = [&](double learning_rate, std::int64_t number) {
      reduce_gradients(rank, random_gradients(rank, 0));
      rank.parameters.update(learning_rate, 1, number);
      return gathered_weights(rank);
    };
    const float before = rank.parameters.scales()->state(0).scales[0];
    // From 0.08 to 0.4.
    const at::Tensor grown = step(0.3, 1), same = step(0, 2);
    if (rank.parameters.scales()->state(0).scales[0] >= before) return 1.0;
    return ((same - grown).abs() / grown.abs()).max().item<double>();
  });
  for (const double error : errors) CHECK(error <= 0x1p-11);
}

TEST_CASE("fp16 weights with scales take AdamW's steps, rounded to eleven digits", "[ranks]") {
  struct Weights {
    at::Tensor before, after, seen, gradients;
    std::vector<float> scales;
  };
  const auto results = on_ranks(fp8_recipe(1), 2, [](ShardRank& rank) {
    ShardedParameters& parameters = rank.parameters;
    parameters.initialize(3);
    Weights weights{gathered_weights(rank), {}, {}, expected_sum(rank, 2), {}};
    reduce_gradients(rank, random_gradients(rank, rank.groups.data.position()));
    parameters.update(1e-3, 0.5, 1);
    weights.after = gathered_weights(rank);
    for (std::size_t i = 0; i < rank.store.ranges().size(); ++i) {
      const FlatRange& range = rank.store.ranges()[i];
      const at::Tensor before = weights.before.slice(0, range.begin, range.end);
      weights.scales.push_back(parameters.scales()->state(i).scales[0]);
      const double placed = before.abs().max().item<double>() * weights.scales.back();
      // Room for a step that multiplies the largest weight, however small it is.
      if (placed >= 4096 || (placed < 2048 && weights.scales.back() != 0x1p14F)) weights.scales.back() = 0;
    }
    return weights;
  });
  const OptimizerRecipe& options = fp8_recipe().training.optimizer;
  for (const Weights& weights : results) {
    CHECK(std::ranges::count(weights.scales, 0.0F) == 0);
    const at::Tensor gradient = weights.gradients.to(at::kDouble) * 0.5, before = weights.before.to(at::kDouble);
    // The first step of AdamW with a first moment that forgets.
    const at::Tensor change = gradient / (gradient.abs() + options.eps) + options.weight_decay * before;
    const at::Tensor exact = before - 1e-3 * change;
    // Half a unit of the eleventh digit; weights below 2⁻²⁸ do not occur here.
    const at::Tensor error = (weights.after.to(at::kDouble) - exact).abs() / exact.abs();
    CHECK(error.max().item<double>() <= 0x1p-11 * 1.001);
    CHECK(error.mean().item<double>() > 0x1p-14);
  }
}

}  // namespace llmtrain::test
