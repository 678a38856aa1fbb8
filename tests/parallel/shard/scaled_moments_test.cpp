// SPDX-License-Identifier: Apache-2.0
// From FP8 level O2 on the optimizer's moments are in small types: the step is AdamW's on the stored numbers, rounded
// once with scales on which all ranks agree.
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "tests/parallel/shard/shard_rank.h"

namespace llmtrain::test {
namespace {

constexpr double scaled_rate = 1e-3, clipping = 0.5;
constexpr std::int64_t scaled_steps = 3;

Recipe o2_recipe(std::int64_t zero_stage) {
  Recipe recipe = small_recipe();
  recipe.model.hidden_size = 48;
  recipe.model.ffn_hidden_size = 80;
  recipe.parallel.zero_stage = zero_stage;
  recipe.precision.fp8_level = Fp8Level::o2;
  return recipe;
}

// What all ranks add up to: numbers that E4M3 has, also with a scale 2⁵ times smaller, so that no cast changes them.
at::Tensor sums_of(const ShardRank& rank, std::int64_t step) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(step));
  const at::Tensor payload = (at::randn({rank.store.elements()}, generator) * 64).to(at::kFloat8_e4m3fn).to(at::kFloat);
  const at::Tensor flat = payload.mul(payload.abs().ge(0.5));
  double size = 0x1p-24;
  for (const FlatRange& range : rank.store.ranges()) flat.slice(0, range.begin, range.end).mul_(size *= 8);
  return flat;
}

// The first rank has them all.
at::Tensor gradients_of(const ShardRank& rank, std::int64_t step) {
  return sums_of(rank, step) * (rank.groups.data.position() == 0 ? 1 : 0);
}

// What a rank owns, in fp32, and the scales of weights and moments.
struct States {
  Part weights, m, v;
  std::vector<StateNumbers> scales;
};

Part state_of(const ShardRank& rank, std::size_t index) {
  const at::Tensor stored = rank.parameters.optimizer_states().at(index).values;
  const at::Tensor values = at::zeros({stored.numel()});
  const FlatInterval owned = rank.parameters.owned();
  for (std::size_t i = 0; i < rank.store.ranges().size(); ++i) {
    const FlatRange& range = rank.store.ranges()[i];
    const FlatInterval here = intersection({range.begin, range.end}, owned);
    const at::Tensor part = stored.slice(0, here.begin - owned.begin, here.end - owned.begin).to(at::kFloat);
    values.slice(0, here.begin - owned.begin, here.end - owned.begin)
        .copy_(part / rank.parameters.scales()->state(i).scales.at(1 + index));
  }
  return {owned, values};
}

States states_of(const ShardRank& rank) {
  States states{{rank.parameters.owned(), rank.parameters.values()}, state_of(rank, 0), state_of(rank, 1), {}};
  for (std::size_t i = 0; i < rank.store.ranges().size(); ++i)
    states.scales.push_back(rank.parameters.scales()->state(i).scales);
  return states;
}

struct Training {
  std::vector<States> states;  // before the first step and after each
  std::vector<FlatRange> ranges;
};

Training train_scaled(ShardRank& rank) {
  rank.parameters.initialize(3);
  Training training{{states_of(rank)}, rank.store.ranges()};
  for (std::int64_t step = 1; step <= scaled_steps; ++step) {
    reduce_gradients(rank, gradients_of(rank, step));
    rank.parameters.update(scaled_rate, clipping, step);
    training.states.push_back(states_of(rank));
  }
  return training;
}

// In float64, of all ranks together.
struct Exact {
  at::Tensor weights, m, v;
};

Exact all_states(const std::vector<Training>& ranks, std::size_t step) {
  std::vector<Part> weights, m, v;
  for (const Training& rank : ranks) {
    weights.push_back(rank.states[step].weights);
    m.push_back(rank.states[step].m);
    v.push_back(rank.states[step].v);
  }
  const std::int64_t elements = ranks.front().ranges.back().end;
  const auto wide = [&](const std::vector<Part>& parts) { return join(parts, elements).to(at::kDouble); };
  return {wide(weights), wide(m), wide(v)};
}

// Loshchilov and Hutter, arXiv 1711.05101, algorithm 2.
Exact stepped(const Exact& before, const at::Tensor& gradients, std::int64_t step) {
  const OptimizerRecipe recipe;
  const at::Tensor g = gradients.to(at::kDouble) * clipping;
  const at::Tensor m = recipe.beta1 * before.m + (1 - recipe.beta1) * g;
  const at::Tensor v = recipe.beta2 * before.v + (1 - recipe.beta2) * g * g;
  const at::Tensor root = (v / (1 - std::pow(recipe.beta2, static_cast<double>(step)))).sqrt() + recipe.eps;
  const at::Tensor change = m / (1 - std::pow(recipe.beta1, static_cast<double>(step))) / root;
  return {before.weights * (1 - scaled_rate * recipe.weight_decay) - scaled_rate * change, m, v};
}

double decibels(const at::Tensor& got, const at::Tensor& exact) {
  return 20 * std::log10((exact.norm() / (got - exact).norm()).item<double>());
}

// The largest error relative to the value, of values that are normal numbers of the format.
double relative(const at::Tensor& got, const at::Tensor& exact) {
  const at::Tensor size = exact.abs();
  return ((got - exact).abs() / size).masked_select(size > size.max() * 0x1p-12).max().item<double>();
}

}  // namespace

TEST_CASE("small moments take AdamW's steps and have the noise of their formats", "[ranks]") {
  for (const auto& [ranks, zero_stage] : {std::pair{1, 0}, {2, 0}, {3, 1}, {2, 2}, {4, 3}}) {
    INFO(ranks << " ranks, ZeRO-" << zero_stage);
    const auto found = on_ranks(o2_recipe(zero_stage), ranks, train_scaled);
    const auto gradients = on_ranks(o2_recipe(zero_stage), ranks, [](const ShardRank& rank) {
      std::vector<at::Tensor> all;
      for (std::int64_t step = 1; step <= scaled_steps; ++step) all.push_back(sums_of(rank, step));
      return all;
    });
    for (std::int64_t step = 1; step <= scaled_steps; ++step) {
      INFO("step " << step);
      const auto index = static_cast<std::size_t>(step);
      const Exact got = all_states(found, index);
      const Exact exact = stepped(all_states(found, index - 1), gradients.front()[index - 1], step);
      double m = 0, v = 0;
      for (const FlatRange& range : found.front().ranges) {
        const auto of = [&](const at::Tensor& flat) { return flat.slice(0, range.begin, range.end); };
        // Half a unit of E4M3's fourth digit, and of fp16's eleventh.
        CHECK(relative(of(got.m), of(exact.m)) <= 0x1p-4 * 1.0001);
        CHECK(relative(of(got.v), of(exact.v)) <= 0x1p-11 * 1.001);
        CHECK(relative(of(got.weights), of(exact.weights)) <= 0x1p-11 * 1.001);
        m += decibels(of(got.m), of(exact.m)) / static_cast<double>(found.front().ranges.size());
        v += decibels(of(got.v), of(exact.v)) / static_cast<double>(found.front().ranges.size());
      }
      // Seven binary digits more are 42 dB.
      CHECK(m == Approx(31.5).margin(1));
      CHECK(v == Approx(73.6).margin(1));
    }
  }
}

TEST_CASE("scales place the largest of a tensor's new moments, of which every rank knows", "[ranks]") {
  for (const auto& [ranks, zero_stage] : {std::pair{1, 0}, {3, 1}, {4, 3}}) {
    INFO(ranks << " ranks, ZeRO-" << zero_stage);
    const auto found = on_ranks(o2_recipe(zero_stage), ranks, train_scaled);
    for (const Training& rank : found) CHECK(rank.states.back().scales == found.front().states.back().scales);
    const Exact got = all_states(found, scaled_steps);
    for (std::size_t i = 0; i < found.front().ranges.size(); ++i) {
      const FlatRange& range = found.front().ranges[i];
      const StateNumbers& scales = found.front().states.back().scales[i];
      const auto payload = [&](const at::Tensor& flat, float scale) {
        return flat.slice(0, range.begin, range.end).abs().max().item<double>() * scale;
      };
      // 448 is the largest, and 224 may be rounded up from below a half of it.
      CHECK(payload(got.m, scales[1]) >= 224);
      CHECK(payload(got.m, scales[1]) <= 448);
      CHECK(payload(got.v, scales[2]) >= 0x1p14);
      CHECK(payload(got.v, scales[2]) <= 0x1p15);
      CHECK((payload(got.weights, scales[0]) >= 0x1p11 || scales[0] == 0x1p14F));
      CHECK(payload(got.weights, scales[0]) <= 0x1p12);
    }
  }
}

TEST_CASE("at O3 modules see casts of the fp16 weights with the scales of whole tensors", "[ranks]") {
  struct Weights {
    Part source;
    at::Tensor seen;
    std::vector<FlatRange> ranges;
  };
  for (const auto& [ranks, zero_stage] : {std::pair{1, 0}, {3, 1}, {2, 2}, {4, 3}}) {
    INFO(ranks << " ranks, ZeRO-" << zero_stage);
    Recipe recipe = o2_recipe(zero_stage);
    recipe.precision.fp8_level = Fp8Level::o3;
    const auto trained = on_ranks(recipe, ranks, [](ShardRank& rank) {
      train_scaled(rank);
      // Weights grow four times as large and more, out of the scales that they had before the step.
      reduce_gradients(rank, gradients_of(rank, scaled_steps + 1));
      rank.parameters.update(0.3, clipping, scaled_steps + 1);
      return Weights{states_of(rank).weights, gathered_weights(rank), rank.store.ranges()};
    });
    std::vector<Part> parts;
    for (const Weights& rank : trained) parts.push_back(rank.source);
    const at::Tensor source = join(parts, trained.front().seen.numel());
    for (const FlatRange& range : trained.front().ranges) {
      const at::Tensor weights = source.slice(0, range.begin, range.end);
      const double scale = std::exp2(std::floor(std::log2(448 / weights.abs().max().item<double>())));
      const at::Tensor expected = (weights * scale).to(at::kFloat8_e4m3fn).to(at::kFloat) / scale;
      for (const Weights& rank : trained) CHECK(rank.seen.slice(0, range.begin, range.end).equal(expected));
    }
  }
}

TEST_CASE("a first moment that is not finite is not hidden by saturation") {
  const auto moments = on_ranks(o2_recipe(0), 1, [](ShardRank& rank) {
    rank.parameters.initialize(3);
    reduce_gradients(rank, gradients_of(rank, 1));
    rank.parameters.update(scaled_rate, std::numeric_limits<double>::infinity(), 1);
    return state_of(rank, 0).values.isnan().any().item<bool>();
  });
  CHECK(moments.front());
}

TEST_CASE("moments of another format are stored with scales for their magnitudes, and a given scale is kept",
          "[ranks]") {
  const auto errors = on_ranks(o2_recipe(1), 2, [](ShardRank& rank) {
    rank.parameters.initialize(3);
    const at::Tensor values = sums_of(rank, 1).abs();
    const FlatInterval owned = rank.parameters.owned();
    const auto write = [&](const StateValues& stored) {
      stored.memory().slice(0, 0, owned.count()).copy_(values.slice(0, owned.begin, owned.end));
    };
    rank.parameters.load_state(0, write);
    rank.parameters.load_state(1, write);
    const double first = relative(state_of(rank, 0).values.to(at::kDouble), values.slice(0, owned.begin, owned.end));
    const double second = relative(state_of(rank, 1).values.to(at::kDouble), values.slice(0, owned.begin, owned.end));
    const float chosen = rank.parameters.scales()->state(0).scales[1];
    rank.parameters.scales()->set_state(0, {{0, chosen / 2, 0}, 1});
    rank.parameters.load_state(0, write);
    const float kept = rank.parameters.scales()->state(0).scales[1];
    return std::vector<double>{first, second, kept / chosen};
  });
  for (const std::vector<double>& error : errors) CHECK(error == std::vector<double>{0, 0, 0.5});
}

}  // namespace llmtrain::test
