// SPDX-License-Identifier: Apache-2.0
// AdamW over states in small types on the emulated GPU, against a processor's loops.
#include <ATen/ATen.h>

#include <algorithm>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "kernels/adamw.h"
#include "tests/kernels/fp8/launch_counts.h"
#include "tests/kernels/fp8/scaled_step.h"

namespace llmtrain::kernels {
namespace {

constexpr std::int64_t n = 10001;

at::Tensor scale_of(float value) { return at::full({1}, value, at::kFloat); }

at::Tensor random_values(double largest) {
  const at::Tensor sizes = at::exp2(at::randint(-20, 1, {n}).to(at::kFloat)) * largest;
  return (at::rand({n}) * 2 - 1) * sizes;
}

ScaledAdamwState random_state(bool has_small_moments, bool has_wide_gradients) {
  ScaledAdamwState state{{random_values(60000).to(at::kHalf), scale_of(0x1p12F)},
                         {random_values(448).to(at::kFloat8_e4m3fn), scale_of(0x1p9F)},
                         {random_values(32000).abs().to(at::kHalf), scale_of(0x1p20F)},
                         {random_values(448).to(at::kFloat8_e4m3fn), scale_of(0x1p7F)}};
  if (!has_small_moments) {
    state.m = {random_values(1), scale_of(1)};
    state.v = {random_values(0.01).abs(), scale_of(1)};
  }
  if (has_wide_gradients) state.gradients = {random_values(3), scale_of(1)};
  return state;
}

ScaledAdamwState copy_of(const ScaledAdamwState& state, const at::Device& device) {
  const auto copy = [&](const ScaledAdamwState::Array& array) {
    return ScaledAdamwState::Array{array.payload.to(device, array.payload.scalar_type(), false, true),
                                   array.scale.to(device)};
  };
  return {copy(state.weights), copy(state.m), copy(state.v), copy(state.gradients)};
}

AdamwStep step() { return {.learning_rate = 1e-2, .weight_decay = 0.1, .gradient_scale = 0.37, .step = 3}; }

// Within one step of the type's rounding, over which the order of fp32's operations moves few of 10,000 numbers, and
// where weight and update nearly cancel within what is left of their own rounding.
void check_close(const ScaledAdamwState::Array& got, const ScaledAdamwState::Array& expected, double unit,
                 double cancelled) {
  const at::Tensor a = got.payload.cpu().to(at::kDouble), b = expected.payload.to(at::kDouble);
  REQUIRE(got.payload.scalar_type() == expected.payload.scalar_type());
  // Some are beyond fp16's range on both.
  const at::Tensor difference = (a - b).abs().masked_fill(a.eq(b), 0);
  CHECK(difference.le(b.abs() * unit + cancelled).all().item<bool>());
  if (unit > 1e-4) CHECK(difference.gt(0).sum().item<std::int64_t>() <= 30);
}

constexpr std::size_t tensor_count = 203;

std::int64_t number(std::size_t k) { return static_cast<std::int64_t>(k); }

// Tensors in flat memory one after the other: of few elements, of many, of none, and some with gradients of their own.
std::vector<ScaledAdamwTensor> tensors_of(const ScaledAdamwState& flat, const at::Tensor& wide, bool is_random) {
  std::vector<ScaledAdamwTensor> tensors;
  std::int64_t begin = 0;
  for (std::size_t k = 0; k < tensor_count; ++k) {
    const std::int64_t size = k == 100 ? 5003 : k % 7 == 3 ? 0 : number(k % 13) * 3;
    ScaledAdamwState state = flat;
    if (k % 50 == 49) state.gradients = {wide, scale_of(1).to(at::kCUDA)};
    for (auto* array : {&state.weights, &state.m, &state.v, &state.gradients})
      array->payload = array->payload.slice(0, begin, begin + size);
    begin += size;
    tensors.push_back({.state = state, .decays = k % 3 != 0, .numbers = {}});
    if (is_random && k % 2 == 0) tensors.back().rounding = StochasticRounding{.key = k, .first = number(k)};
  }
  REQUIRE(begin <= n);
  return tensors;
}

struct Bytes {
  std::int64_t read = 0, written = 0;
};

Bytes bytes_of_arrays(const std::vector<ScaledAdamwTensor>& tensors) {
  Bytes bytes;
  for (const ScaledAdamwTensor& tensor : tensors) {
    const auto& [weights, m, v, gradients] = tensor.state;
    bytes.written += number(weights.payload.nbytes() + m.payload.nbytes() + v.payload.nbytes());
    bytes.read += number(gradients.payload.nbytes());
  }
  bytes.read += bytes.written;
  return bytes;
}

// How many have any.
std::int64_t filled(const std::vector<ScaledAdamwTensor>& tensors) {
  return std::ranges::count_if(tensors, [](const auto& each) { return each.state.weights.payload.numel() > 0; });
}

// What a search or a step has launched with these numbers.
template <class NumbersOf>
Counted counted_step(const std::string& kernel, std::vector<ScaledAdamwTensor>& tensors, NumbersOf numbers_of) {
  for (std::size_t k = 0; k < tensors.size(); ++k) tensors[k].numbers = numbers_of(k);
  return counted(kernel, [&] {
    if (kernel == "scaled_adamw") {
      scaled_adamw_(tensors, step());
    } else {
      scaled_adamw_largest(tensors, step());
    }
  });
}

}  // namespace

TEST_CASE("a GPU's scaled step is a processor's, and so are the largest magnitudes that it leaves") {
  const bool has_small_moments = GENERATE(false, true), has_wide_gradients = GENERATE(false, true);
  INFO(has_small_moments << has_wide_gradients);
  const ScaledAdamwState start = random_state(has_small_moments, has_wide_gradients);
  const ScaledAdamwState here = copy_of(start, at::kCPU), there = copy_of(start, at::kCUDA);
  const at::Tensor largest = scaled_adamw_largest(here, step()), found = scaled_adamw_largest(there, step());
  CHECK(at::allclose(found.cpu(), largest, 1e-6, 0));
  // Nothing has changed.
  CHECK(at::equal(there.weights.payload.cpu(), start.weights.payload));
  CHECK(at::equal(there.v.payload.cpu(), start.v.payload));
  const at::Tensor next =
      has_small_moments ? at::tensor({0x1p11F, 0x1p10F, 0x1p18F}) : at::tensor({0x1p11F, 1.0F, 1.0F});
  scaled_adamw_(here, step(), next);
  scaled_adamw_(there, step(), next.to(at::kCUDA));
  check_close(there.weights, here.weights, 0x1p-10, 0x1p-3);
  check_close(there.m, here.m, has_small_moments ? 0x1p-3 : 1e-6, has_small_moments ? 0x1p-9 : 1e-6);
  check_close(there.v, here.v, has_small_moments ? 0x1p-10 : 1e-6, has_small_moments ? 0x1p-24 : 0);
  CHECK_FALSE(at::equal(here.weights.payload, start.weights.payload));
}

// As the parts of a flat array lie.
TEST_CASE(
    "a GPU's scaled step is one kernel, as the search of cleared numbers is, from any address, and changes nothing "
    "else") {
  const ScaledAdamwState start = random_state(true, false);
  ScaledAdamwState there = copy_of(start, at::kCUDA);
  const auto slice = [](const ScaledAdamwState& state) {
    ScaledAdamwState part = state;
    for (auto* array : {&part.weights, &part.m, &part.v, &part.gradients})
      array->payload = array->payload.slice(0, 3, 7000);
    return part;
  };
  const ScaledAdamwState here = copy_of(start, at::kCPU), host_part = slice(here), part = slice(there);
  const at::Tensor next = at::tensor({0x1p11F, 0x1p10F, 0x1p18F}), far = next.to(at::kCUDA);
  const std::int64_t before = emulated::counters(0).launches;
  const at::Tensor largest = scaled_adamw_largest(part, step());
  CHECK(emulated::counters(0).launches - before == 2);
  scaled_adamw_(part, step(), far);
  CHECK(emulated::counters(0).launches - before == 3);
  CHECK(at::allclose(largest.cpu(), scaled_adamw_largest(host_part, step()), 1e-6, 0));
  scaled_adamw_(host_part, step(), next);
  check_close(there.weights, here.weights, 0x1p-10, 0x1p-3);
  check_close(there.m, here.m, 0x1p-3, 0x1p-9);
  check_close(there.v, here.v, 0x1p-10, 0x1p-24);
  CHECK(scaled_adamw_largest(slice(copy_of(start, at::kCUDA)), step()).cpu().equal(largest.cpu()));
}

TEST_CASE("hundreds of tensors make a scaled step on a GPU in few kernels, each as by itself") {
  const bool has_small_moments = GENERATE(true, false), is_random = GENERATE(true, false);
  const ScaledAdamwState usual = random_state(has_small_moments, false);
  const at::Tensor wide = random_state(has_small_moments, true).gradients.payload.to(at::kCUDA);
  const ScaledAdamwState together = copy_of(usual, at::kCUDA), apart = copy_of(usual, at::kCUDA);
  std::vector<ScaledAdamwTensor> all = tensors_of(together, wide, is_random);
  const at::Tensor next =
      (has_small_moments ? at::tensor({0x1p11F, 0x1p8F, 0x1p18F}) : at::tensor({0x1p11F, 1.F, 1.F})).to(at::kCUDA);
  const at::Tensor found = at::zeros({tensor_count, 3}, next.options());
  const Counted search = counted_step("scaled_adamw_largest", all, [&](std::size_t k) { return found[number(k)]; });
  // Those with gradients in E4M3, 40 at a time, and the few others.
  CHECK(search.launches == 5);
  CHECK(search.bytes == bytes_of_arrays(all).read + filled(all) * (4 + 2 * 3) * 4);
  const Counted change = counted_step("scaled_adamw", all, [&](std::size_t) { return next; });
  CHECK(change.launches <= (is_random ? 7 : 5));
  CHECK(change.bytes == bytes_of_arrays(all).read + bytes_of_arrays(all).written + filled(all) * (4 + 3) * 4);
  std::int64_t nonzero = 0;
  const std::vector<ScaledAdamwTensor> singles = tensors_of(apart, wide, is_random);
  for (std::size_t k = 0; k < tensor_count; ++k) {
    AdamwStep own = step();
    if (!singles[k].decays) own.weight_decay = 0;
    const at::Tensor largest = scaled_adamw_largest(singles[k].state, own);
    CHECK(largest.equal(found[number(k)]));
    nonzero += largest.gt(0).any().item<bool>() ? 1 : 0;
    scaled_adamw_(singles[k].state, own, next, singles[k].rounding);
  }
  CHECK(nonzero > 100);
  const std::vector<std::pair<at::Tensor, at::Tensor>> payloads{{together.weights.payload, apart.weights.payload},
                                                                {together.m.payload, apart.m.payload},
                                                                {together.v.payload, apart.v.payload}};
  for (const auto& [got, want] : payloads) CHECK(at::equal(got.cpu().view(at::kByte), want.cpu().view(at::kByte)));
}

TEST_CASE("a search for the largest magnitudes goes on from those that were found") {
  const ScaledAdamwState state = copy_of(random_state(true, false), at::kCUDA);
  const ScaledAdamwTensor tensor{.state = state, .numbers = at::tensor({0.0F, 1e30F, 0.0F}).to(at::kCUDA)};
  scaled_adamw_largest({&tensor, 1}, step());
  const at::Tensor alone = scaled_adamw_largest(state, step());
  CHECK(tensor.numbers[1].item<float>() == 1e30F);
  CHECK(alone[1].item<float>() < 1e30F);
  for (const int k : {0, 2}) CHECK(tensor.numbers[k].equal(alone[k]));
}

TEST_CASE("a GPU rounds at random to a processor's bits, wherever a part of a tensor begins") {
  const bool has_small_moments = GENERATE(false, true), has_wide_gradients = GENERATE(false, true);
  // Powers of two, whose products nobody rounds, so that orders of operations do not show.
  const AdamwStep exact{.learning_rate = 0x1p-7, .beta1 = 0.5, .beta2 = 0.5, .eps = 1, .step = 1};
  const at::Tensor next =
      has_small_moments ? at::tensor({0x1p11F, 0x1p8F, 0x1p18F}) : at::tensor({0x1p11F, 1.0F, 1.0F});
  for (const auto& [begin, run] : {std::pair{0L, 0L}, {3L, 0L}, {0L, 700L}, {5L, 37L}, {6L, 1L}}) {
    INFO(has_small_moments << has_wide_gradients << " from " << begin << " in runs of " << run);
    const ScaledAdamwState start = random_state(has_small_moments, has_wide_gradients);
    const ScaledAdamwState here = copy_of(start, at::kCPU), there = copy_of(start, at::kCUDA);
    const auto part_of = [begin = begin](ScaledAdamwState state) {
      for (auto* array : {&state.weights, &state.m, &state.v, &state.gradients})
        array->payload = array->payload.slice(0, begin, n - 2);
      return state;
    };
    const StochasticRounding rounding{.key = 21, .first = 7, .run = run, .stride = 2 * run + 1, .skipped = begin};
    scaled_adamw_(part_of(here), exact, next, rounding);
    scaled_adamw_(part_of(there), exact, next.to(at::kCUDA), rounding);
    for (const auto& [got, want] : {std::pair{there.weights, here.weights}, {there.m, here.m}, {there.v, here.v}})
      CHECK(at::equal(got.payload.cpu().view(at::kByte), want.payload.view(at::kByte)));
  }
}

TEST_CASE("on a GPU, too, a second moment stays above 0 and what is not a number is the largest") {
  ScaledAdamwState state = random_state(true, false);
  for (auto* array : {&state.m, &state.gradients}) array->payload.zero_();
  state.v.payload = at::zeros({n}).to(at::kHalf);
  state.v.payload.slice(0, 0, 2).copy_(at::tensor({1.0, 0x1p-24}));
  ScaledAdamwState there = copy_of(state, at::kCUDA);
  scaled_adamw_(there, step(), at::ones({3}, at::dtype(at::kFloat).device(at::kCUDA)));
  CHECK(there.v.payload.gt(0).sum().item<std::int64_t>() == 2);
  state.v.payload.fill_(0x1p-24);
  ScaledAdamwState random = copy_of(state, at::kCUDA);
  scaled_adamw_(random, step(), at::ones({3}, at::dtype(at::kFloat).device(at::kCUDA)), StochasticRounding{.key = 1});
  CHECK(random.v.payload.gt(0).all().item<bool>());
  state.gradients.payload[n - 1] = std::numeric_limits<float>::quiet_NaN();
  there = copy_of(state, at::kCUDA);
  CHECK(scaled_adamw_largest(there, step()).isnan().all().item<bool>());
}

}  // namespace llmtrain::kernels
