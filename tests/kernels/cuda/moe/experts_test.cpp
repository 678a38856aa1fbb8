// SPDX-License-Identifier: Apache-2.0
// Routing and the experts' products on the emulated GPU: the CPU's numbers, and nobody waits for the device.
#include <ATen/ops/cat.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/host_copy.h"
#include "kernels/moe/dispatch.h"
#include "kernels/moe/grouped_products.h"
#include "kernels/moe/jitter.h"
#include "tests/emulator/device/runtime.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {
namespace {

at::Tensor on_gpu(const at::Tensor& x) { return to_device(x, at::Device(at::kCUDA, 0)); }

at::Tensor random_scores(std::int64_t tokens, std::int64_t experts) {
  return at::rand({tokens, experts}, test_generator(), at::kFloat);
}

// What the host does here it may do without the device.
template <class Make>
auto without_waits(Make make) {
  const emulated::NoSynchronisation none;
  return make();
}

void check_equal(const ExpertRows& gpu, const ExpertRows& cpu) {
  CHECK(at::equal(gpu.row_of.cpu(), cpu.row_of));
  CHECK(gpu.rows() >= cpu.rows());
  const ExpertRows known = with_offsets(gpu);
  CHECK(known.offsets == cpu.offsets);
  CHECK(at::equal(known.choice_of.cpu(), cpu.choice_of));
  // Also of rows without an expert: whoever copies tokens there reads one.
  if (gpu.rows() > 0) CHECK(gpu.choice_of.min().item<std::int64_t>() >= 0);
  if (gpu.rows() > 0) CHECK(gpu.choice_of.max().item<std::int64_t>() < gpu.choices());
}

}  // namespace

TEST_CASE("a GPU chooses the CPU's experts, of equal scores the lower one, and of NaN as many as there are") {
  const at::Tensor few = at::randint(4, {300, 8}, test_generator(), at::kFloat);
  const at::Tensor odd = at::tensor({NAN, NAN, NAN, NAN, 1.0F, NAN, 0.0F, NAN, 1.0F}, at::kFloat).view({3, 3});
  for (const at::Tensor& scores : {few, few.to(at::kDouble), odd, random_scores(40, 64)}) {
    const std::int64_t k = std::min<std::int64_t>(3, scores.size(1));
    const at::Tensor there = on_gpu(scores);
    const TopExperts gpu = without_waits([&] { return top_experts(there, k); }), cpu = top_experts(scores, k);
    CHECK(at::equal(gpu.experts.cpu(), cpu.experts));
    CHECK(gpu.scores.cpu().equal(cpu.scores) != cpu.scores.isnan().any().item<bool>());
  }
}

TEST_CASE("a GPU assigns the CPU's rows, with any capacity, priority, and choices of none") {
  const auto [tokens, experts, k] =
      // More choices than a block takes; more experts than the kernel, which LibTorch's operators assign.
      GENERATE(table<int, int, int>(
          {{1, 1, 1}, {7, 4, 2}, {100, 8, 3}, {5, 64, 4}, {33, 3, 3}, {0, 4, 2}, {900, 8, 2}, {3, 5000, 2}}));
  at::Tensor chosen = top_experts(random_scores(tokens, experts), k).experts;
  const at::Tensor scores = at::randint(5, {tokens}, test_generator(), at::kFloat);
  for (const bool has_none : {false, true}) {
    if (has_none) chosen = chosen.masked_fill(at::rand(chosen.sizes(), test_generator()) < 0.3, -1);
    for (const std::optional<std::int64_t> capacity : {std::optional<std::int64_t>(), {0}, {1}, {7}, {1000}})
      for (const bool by_score : {false, true}) {
        INFO(tokens << " tokens, capacity " << capacity.value_or(-1) << ", by score " << by_score);
        const std::optional<at::Tensor> priority = by_score ? std::optional(scores) : std::nullopt;
        const at::Tensor there = on_gpu(chosen);
        const std::optional<at::Tensor> priority_there = by_score ? std::optional(on_gpu(scores)) : std::nullopt;
        const ExpertRows gpu =
            without_waits([&, experts = experts] { return assign_rows(there, experts, capacity, priority_there); });
        check_equal(gpu, assign_rows(chosen, experts, capacity, priority));
      }
  }
}

TEST_CASE("a GPU's jitter has the CPU's bits") {
  // Within a counter's four words and at their beginning, also where counters need more than 32 bits.
  const auto first = GENERATE(std::int64_t{0}, std::int64_t{7}, (std::int64_t{1} << 34) - 6);
  const auto [rows, width] = GENERATE(table<int, int>({{37, 5}, {1, 1}, {64, 32}}));
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    at::Tensor cpu = random_tensor({rows, width}, type), gpu = on_gpu(cpu);
    const Jitter jitter{.amplitude = 0.1, .key = 0x123456789ABCDEFULL, .first_element = first};
    without_waits([&] {
      jitter_(gpu, jitter);
      return 0;
    });
    jitter_(cpu, jitter);
    CHECK(at::equal(gpu.cpu(), cpu));
  }
}

TEST_CASE("a GPU's jitter of rows in any type has the CPU's bits, in a kernel for runs that are alike") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble);
  // The rank holds all of four sequences of 16 tokens, or the first and the last quarter of each, where all runs but
  // the first and the last are alike.
  const auto [part, kernels] =
      GENERATE(table<SequencePart, int>({{SequencePart{}, 1}, {SequencePart{16, {{0, 4}, {12, 4}}}, 3}}));
  const auto width = GENERATE(5, 32);
  const RowsAtHand rows{part, 8, 0};
  const Jitter jitter{.amplitude = 0.3, .key = 5, .first_element = 2 * 16 * width};
  const at::Tensor cpu = random_tensor({32, width}, type), gpu = on_gpu(cpu);
  const std::int64_t before = emulated::counters(0).launches;
  at::Tensor got = without_waits([&] { return jittered_rows(gpu, jitter, rows); });
  if (type != at::kDouble) CHECK(emulated::counters(0).launches - before == kernels);
  at::Tensor want = jittered_rows(cpu, jitter, rows);
  CHECK(want.scalar_type() == (type == at::kDouble ? at::kDouble : at::kFloat));
  CHECK(at::equal(got.cpu(), want));
  CHECK(at::equal(gpu.cpu(), cpu));
  // And back, in place.
  jitter_rows_(got, jitter, rows);
  jitter_rows_(want, jitter, rows);
  CHECK(at::equal(got.cpu(), want));
}

namespace {

struct Routed {
  ExpertRows cpu, gpu;
};

// Expert 2 has no rows; tokens are dropped, so that the GPU's matrices have rows of no expert.
Routed routed_to_few() {
  at::Tensor scores = random_scores(60, 5);
  scores.select(1, 2).fill_(-1);
  const at::Tensor chosen = top_experts(scores, 2).experts;
  return {assign_rows(chosen, 5, 25), assign_rows(on_gpu(chosen), 5, 25)};
}

at::Tensor kept_rows_of(const at::Tensor& rows, const ExpertRows& cpu) { return rows.cpu().narrow(0, 0, cpu.rows()); }

// Rows of the CPU's map, and NaN where the GPU's has rows of no expert.
at::Tensor with_unknown(const at::Tensor& rows, const ExpertRows& gpu) {
  const at::Tensor unknown = at::full({gpu.rows() - rows.size(0), rows.size(1)}, NAN, rows.options());
  return on_gpu(at::cat({rows, unknown}));
}

}  // namespace

TEST_CASE("a GPU dispatches and combines as the CPU, and reads no row that is no expert's") {
  // LibTorch's operators compute in float64, with gates that are float64, too.
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble);
  const at::ScalarType gate_type = type == at::kDouble ? at::kDouble : at::kFloat;
  const double tolerance = type == at::kBFloat16 ? bf16_rounding : type == at::kHalf ? 1e-3 : 200 * fp32_rounding;
  const auto [cpu, gpu] = routed_to_few();
  REQUIRE(gpu.rows() > cpu.rows());
  const at::Tensor x = random_tensor({60, 24}, type), rows = random_tensor({cpu.rows(), 24}, type);
  const at::Tensor gates = at::rand({60, 2}, test_generator(), gate_type);
  const at::Tensor there = with_unknown(rows, gpu), x_there = on_gpu(x), gates_there = on_gpu(gates);
  CHECK(at::equal(kept_rows_of(dispatch_forward(x_there, gpu), cpu), dispatch_forward(x, cpu)));
  const auto dx = without_waits([&, &map = gpu] { return dispatch_backward(there, map); });
  const auto y = without_waits([&, &map = gpu] { return combine_forward(there, gates_there, map); });
  const auto gradients = without_waits([&, &map = gpu] { return combine_backward(x_there, there, gates_there, map); });
  const CombineGradients want = combine_backward(x, rows, gates, cpu);
  CHECK(largest_error(dx.cpu(), dispatch_backward(rows, cpu).to(at::kDouble)) <= tolerance);
  CHECK(largest_error(y.cpu(), combine_forward(rows, gates, cpu).to(at::kDouble)) <= tolerance);
  CHECK(largest_error(kept_rows_of(gradients.rows, cpu), want.rows.to(at::kDouble)) <= tolerance);
  CHECK(largest_error(gradients.gates.cpu(), want.gates.to(at::kDouble)) <= 200 * fp32_rounding);
}

TEST_CASE("a GPU goes between tokens and rows, and gives choices rows, in as many kernels as it says") {
  const auto [cpu, gpu] = routed_to_few();
  const at::Tensor rows = with_unknown(random_tensor({cpu.rows(), 24}, at::kBFloat16), gpu);
  const at::Tensor x = on_gpu(random_tensor({60, 24}, at::kBFloat16)), chosen = on_gpu(at::zeros({60, 2}, at::kLong));
  const at::Tensor gates = on_gpu(at::rand({60, 2}, test_generator(), at::kFloat));
  const auto launches = [](auto work) {
    const std::int64_t before = emulated::counters(0).launches;
    work();
    return emulated::counters(0).launches - before;
  };
  CHECK(launches([&, &map = gpu] { dispatch_forward(x, map); }) == 1);
  CHECK(launches([&, &map = gpu] { dispatch_backward(rows, map); }) == 1);
  CHECK(launches([&, &map = gpu] { combine_forward(rows, gates, map); }) == 1);
  CHECK(launches([&, &map = gpu] { combine_backward(x, rows, gates, map); }) == 1);
  CHECK(launches([&] { assign_rows(chosen, 4, 50); }) == 2);
}

TEST_CASE("the experts' products on a GPU are those of each expert in float64") {
  // bf16 in one kernel; fp32, and bf16 of odd widths, one expert after another.
  const auto [type, in, out] = GENERATE(table<at::ScalarType, int, int>(
      {{at::kBFloat16, 16, 24}, {at::kFloat, 16, 24}, {at::kBFloat16, 15, 24}, {at::kHalf, 16, 8}}));
  const double tolerance = type == at::kFloat ? 200 * fp32_rounding : 3 * bf16_rounding;
  const auto [cpu, padded] = routed_to_few();
  const bool together = run_together(type, at::Device(at::kCUDA, 0), in, out);
  CHECK(together == (type == at::kBFloat16 && in == 16));
  const ExpertRows gpu = together ? padded : with_offsets(padded);
  const at::Tensor x = random_tensor({cpu.rows(), in}, type), dy = random_tensor({cpu.rows(), out}, type);
  const at::Tensor weights = random_tensor({5, out, in}, type), biases = random_tensor({5, out}, type);
  const at::Tensor x_there = with_unknown(x, gpu), weights_there = on_gpu(weights), biases_there = on_gpu(biases);
  // Columns of a wider matrix.
  const at::Tensor dy_there = at::cat({with_unknown(dy, gpu), with_unknown(dy, gpu)}, 1).narrow(1, out, out);
  const at::Tensor dweights = on_gpu(at::ones({5, out, in}, at::kFloat)),
                   dbiases = on_gpu(at::ones({5, out}, at::kFloat));
  const auto gpu_products = [&, &map = gpu] {
    grouped_backward_weight(dy_there, x_there, map, dweights, Accumulation::add);
    grouped_backward_bias(dy_there, map, dbiases, Accumulation::add);
    return std::pair(grouped_linear(x_there, weights_there, biases_there, map),
                     grouped_backward_input(dy_there, weights_there, map));
  };
  const auto [y, dx] = without_waits(gpu_products);
  const at::Tensor sum = dx.clone();
  grouped_add_backward_input(dy_there, weights_there, gpu, sum);
  for (std::int64_t e = 0; e < 5; ++e) {
    const std::int64_t first = cpu.offsets[static_cast<std::size_t>(e)], rows = cpu.rows_of(e);
    const auto of = [&](const at::Tensor& t) { return t.cpu().narrow(0, first, rows).to(at::kDouble); };
    const at::Tensor w = weights[e].to(at::kDouble);
    CHECK(largest_error(dweights.cpu()[e], 1 + of(dy).t().mm(of(x))) <= tolerance);
    CHECK(largest_error(dbiases.cpu()[e], 1 + of(dy).sum(0)) <= 200 * fp32_rounding);
    if (rows == 0) continue;
    CHECK(largest_error(of(y), of(x).mm(w.t()) + biases[e].to(at::kDouble)) <= tolerance);
    CHECK(largest_error(of(dx), of(dy).mm(w)) <= tolerance);
    CHECK(largest_error(of(sum), 2 * of(dy).mm(w)) <= tolerance);
  }
}

TEST_CASE("experts multiply E4M3 numbers on a GPU by their rows' scales") {
  const auto [cpu, gpu] = routed_to_few();
  CHECK(scaled_run_together(at::kBFloat16, at::Device(at::kCUDA, 0), 32, 16));
  CHECK_FALSE(scaled_run_together(at::kBFloat16, at::Device(at::kCUDA, 0), 32, 8));
  CHECK_FALSE(scaled_run_together(at::kFloat, at::Device(at::kCUDA, 0), 32, 16));
  const auto power = [](std::int64_t rows) {
    return at::randint(-6, 7, {rows, 1}, test_generator(), at::kFloat).exp2();
  };
  const at::Tensor x = random_tensor({cpu.rows(), 32}, at::kFloat8_e4m3fn), scales = power(cpu.rows());
  const at::Tensor weights = random_tensor({5, 16, 32}, at::kFloat8_e4m3fn), weight_scales = power(5);
  const at::Tensor biases = random_tensor({5, 16}, at::kBFloat16);
  const at::Tensor x_there = with_unknown(x.to(at::kFloat), gpu).to(at::kFloat8_e4m3fn);
  const at::Tensor scales_there = with_unknown(scales, gpu), weights_there = on_gpu(weights);
  const at::Tensor weight_scales_there = on_gpu(weight_scales), biases_there = on_gpu(biases);
  const at::Tensor y = without_waits([&, &map = gpu] {
    return grouped_scaled_linear(x_there, scales_there, weights_there, weight_scales_there, biases_there, map);
  });
  const at::Tensor rows = x.to(at::kDouble) / scales;
  for (std::int64_t e = 0; e < 5; ++e) {
    if (cpu.rows_of(e) == 0) continue;
    const std::int64_t first = cpu.offsets[static_cast<std::size_t>(e)];
    const at::Tensor product =
        rows.narrow(0, first, cpu.rows_of(e)).mm(weights[e].to(at::kDouble).t()) / weight_scales[e];
    CHECK(largest_error(y.cpu().narrow(0, first, cpu.rows_of(e)), product + biases[e].to(at::kDouble)) <=
          3 * bf16_rounding);
  }
}

TEST_CASE("experts without any row have gradients of zero on a GPU") {
  const ExpertRows map = assign_rows(on_gpu(at::zeros({6, 1}, at::kLong)), 3, 0);
  CHECK(map.rows() == 0);
  const auto empty = [](std::int64_t width) { return on_gpu(at::empty({0, width}, at::kBFloat16)); };
  const at::Tensor dweights = on_gpu(at::ones({3, 8, 16}, at::kFloat));
  grouped_backward_weight(empty(8), empty(16), map, dweights, Accumulation::overwrite);
  CHECK(dweights.cpu().eq(0).all().item<bool>());
  CHECK(combine_forward(empty(8), on_gpu(at::ones({6, 1}, at::kFloat)), map).cpu().eq(0).all().item<bool>());
}

}  // namespace llmtrain::kernels
