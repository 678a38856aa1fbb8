// SPDX-License-Identifier: Apache-2.0
// What devices exchange, against the closed forms of Efficiently Scaling Transformer Inference (Pope et al., arXiv
// 2211.05102, section 3.2), and against what the collectives of ranks that hold the parts would move.
#include "parallel/plan/inference/split_exchanges.h"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <utility>

namespace llmtrain {
namespace {

using Catch::WithinRel;

// A network with two matrices, as the paper counts.
HalfShape network(double width, double features) { return {features, features, 2 * width * features}; }

double elements(const DeviceSplit& split, double width, double features, double tokens) {
  double sum = 0;
  for (const SplitExchange& each : half_exchanges(split, width, network(width, features), tokens)) sum += each.elements;
  return sum;
}

DeviceSplit split_of(WeightLayout weights, std::int64_t x, std::int64_t y, std::int64_t z) {
  return {.x = x, .y = y, .z = z, .weights = weights};
}

constexpr double width = 18432, features = 73728;

TEST_CASE("weights that stay along one axis exchange 2BLE elements", "[split_exchanges]") {
  rc::prop("1d", [] {
    const auto devices = *rc::gen::inRange<std::int64_t>(2, 513);
    const auto tokens = static_cast<double>(*rc::gen::inRange(1, 100000));
    const double e = *rc::gen::inRange(1, 30000), f = *rc::gen::inRange(1, 90000);
    RC_ASSERT(std::abs(elements(split_of(WeightLayout::stationary_1d, 1, 1, devices), e, f, tokens) - 2 * tokens * e) <=
              1e-9 * tokens * e);
  });
}

TEST_CASE("weights that stay along two axes exchange 2BL(E/X + F/YZ) elements", "[split_exchanges]") {
  rc::prop("2d", [] {
    const auto x = *rc::gen::inRange<std::int64_t>(2, 17), y = *rc::gen::inRange<std::int64_t>(1, 17);
    const auto z = *rc::gen::inRange<std::int64_t>(2, 17);
    const double tokens = *rc::gen::inRange(1, 100000);
    const double e = *rc::gen::inRange(1, 30000), f = *rc::gen::inRange(1, 90000);
    const double expected = 2 * tokens * (e / static_cast<double>(x) + f / static_cast<double>(y * z));
    RC_ASSERT(std::abs(elements(split_of(WeightLayout::stationary_2d, x, y, z), e, f, tokens) - expected) <=
              1e-9 * expected);
  });
}

TEST_CASE("gathered weights exchange 2EFN/n elements of weights and 2BLE/N of activations", "[split_exchanges]") {
  rc::prop("gathered", [] {
    const auto x = *rc::gen::inRange<std::int64_t>(2, 9), y = *rc::gen::inRange<std::int64_t>(2, 9);
    const auto z = *rc::gen::inRange<std::int64_t>(2, 9);
    const double tokens = *rc::gen::inRange(1, 100000), n = static_cast<double>(x * y * z);
    const double e = *rc::gen::inRange(1, 30000), f = *rc::gen::inRange(1, 90000);
    for (const auto& [layout, over] : {std::pair(WeightLayout::gathered_x, x),
                                       {WeightLayout::gathered_xy, x * y},
                                       {WeightLayout::gathered_xyz, x * y * z}}) {
      const auto gathering = static_cast<double>(over);
      const double expected = 2 * e * f * gathering / n + (gathering < n ? 2 * tokens * e / gathering : 0);
      RC_ASSERT(std::abs(elements(split_of(layout, x, y, z), e, f, tokens) - expected) <= 1e-9 * expected);
    }
  });
}

TEST_CASE("with F = 4E the best x of n devices is half the root of n, with 8BLE ÷ √n elements", "[split_exchanges]") {
  for (const std::int64_t root : {4, 8, 16}) {
    const double best = elements(split_of(WeightLayout::stationary_2d, root / 2, 1, 2 * root), width, features, 1);
    CHECK_THAT(best, WithinRel(8 * width / static_cast<double>(root), 1e-12));
    for (std::int64_t x = 2; x < root * root; x *= 2)
      CHECK(elements(split_of(WeightLayout::stationary_2d, x, 1, root * root / x), width, features, 1) >= best);
  }
  // Half of 1d's on 64 devices, and as many on 16.
  CHECK_THAT(elements(split_of(WeightLayout::stationary_2d, 4, 1, 16), width, features, 1), WithinRel(width, 1e-12));
  CHECK_THAT(elements(split_of(WeightLayout::stationary_2d, 2, 1, 8), width, features, 1), WithinRel(2 * width, 1e-12));
}

TEST_CASE("on 4 × 4 × 4 devices more tokens make weights cheaper to gather, at the paper's numbers of them",
          "[split_exchanges]") {
  const auto of = [](WeightLayout layout, double tokens) {
    return elements(split_of(layout, 4, 4, 4), width, features, tokens);
  };
  const auto changes_at = [&](WeightLayout before, WeightLayout after, double tokens) {
    CHECK(of(before, tokens - 1) < of(after, tokens - 1));
    CHECK_THAT(of(before, tokens), WithinRel(of(after, tokens), 1e-12));
    CHECK(of(before, tokens + 1) > of(after, tokens + 1));
  };
  changes_at(WeightLayout::stationary_2d, WeightLayout::gathered_x, 18432);
  changes_at(WeightLayout::gathered_x, WeightLayout::gathered_xy, 73728);
  changes_at(WeightLayout::gathered_xy, WeightLayout::gathered_xyz, 884736);
}

TEST_CASE("halves with one input exchange the model's width once", "[split_exchanges]") {
  LayerShape shape;
  shape.width = 64;
  shape.attention = {96, 64, 64 * 160};
  shape.feed_forward = {512, 256, 64 * 768};
  shape.query = 64;
  const auto count = [&](bool has_one_input, const DeviceSplit& split) {
    shape.has_one_input = has_one_input;
    double sum = 0;
    for (const SplitExchange& each : layer_exchanges(split, shape, 10, 10)) sum += each.elements;
    return sum;
  };
  const DeviceSplit flat = split_of(WeightLayout::stationary_1d, 1, 1, 4);
  CHECK(count(true, flat) == 2 * 10 * 64);
  CHECK(count(false, flat) == 4 * 10 * 64);
  const DeviceSplit both = split_of(WeightLayout::stationary_2d, 2, 1, 4);
  const double features_of_both = 10 * (96 + 64 + 512 + 256) / 4.0;
  CHECK(count(true, both) == 2 * 10 * 64 / 2 + features_of_both);
  CHECK(count(false, both) == 4 * 10 * 64 / 2 + features_of_both);
}

TEST_CASE("attention by sequences sends queries, keys and values to them and results back", "[split_exchanges]") {
  LayerShape shape;
  shape.width = 64;
  shape.query = 64;
  shape.heads = 8;
  shape.key_heads = 1;
  shape.cached = 16;
  shape.attention = {80, 64, 64 * 144};
  shape.feed_forward = {256, 256, 64 * 512};
  DeviceSplit split = split_of(WeightLayout::stationary_1d, 1, 1, 4);
  split.attention = AttentionLayout::batch;
  double sent = 0;
  for (const SplitExchange& each : layer_exchanges(split, shape, 8, 8))
    if (each.collective == Collective::all_to_all) {
      CHECK(each.ranks == 4);
      sent += each.elements;
    }
  // B(h + 2)d ÷ n there and Bhd ÷ n back, with h·d = 64 and 2·d = 16.
  CHECK(sent == 8 * (64 + 16) / 4 + 8 * 64 / 4);
}

TEST_CASE("one device exchanges nothing", "[split_exchanges]") {
  CHECK(half_exchanges({}, 64, network(64, 256), 10).empty());
}

}  // namespace
}  // namespace llmtrain
