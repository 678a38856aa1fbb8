// SPDX-License-Identifier: Apache-2.0
// AdamW on a GPU, emulated here with the project's kernel, against the processor's loops.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/machine/processor.h"
#include "kernels/adamw.h"
#include "tests/emulator/cuda/kernels.h"
#include "tests/emulator/torch/backend.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {
namespace {

const at::Device gpu{at::kCUDA, 0};
constexpr std::int64_t n = 5003;

struct Step {
  AdamwState state{random_tensor({n}, at::kFloat), random_tensor({n}, at::kFloat),
                   random_tensor({n}, at::kFloat).square()};
  at::Tensor gradients;
  std::optional<at::Tensor> compute_weights;

  Step on_gpu() const {
    Step moved = *this;
    moved.state = {state.weights.to(gpu), state.m.to(gpu), state.v.to(gpu)};
    moved.gradients = gradients.to(gpu);
    if (compute_weights) moved.compute_weights = compute_weights->to(gpu);
    return moved;
  }
  // Elements [begin, end), as where parameters that decay and others alternate.
  void take(std::int64_t begin, std::int64_t end, const DecayRuns& runs = {}) {
    const auto part = [&](const at::Tensor& x) { return x.slice(0, begin, end); };
    AdamwState states{part(state.weights), part(state.m), part(state.v)};
    std::optional<at::Tensor> rounded;
    if (compute_weights) rounded = part(*compute_weights);
    adamw_(states, part(gradients), {.learning_rate = 1e-2, .weight_decay = 0.1, .gradient_scale = 0.37, .step = 3},
           rounded, runs);
  }
};

// Processors that do not multiply and add at once round once more in each of three sums.
void check_same(const at::Tensor& got, const at::Tensor& want) {
  if (instruction_set_level() >= 3) CHECK(at::equal(got.cpu(), want));
  CHECK(largest_error(got.cpu(), want) < 8 * fp32_rounding);
}

// What kernels of this name have said until now that they read and write.
std::int64_t bytes_of(const char* name) { return emulated::named_counts()["bytes"][name]; }

}  // namespace

TEST_CASE("a step of AdamW on a GPU is one kernel without memory beside, with the bits of a processor's") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const auto compute = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  Step here;
  here.gradients = random_tensor({n}, type);
  if (compute != at::kFloat) here.compute_weights = at::zeros({n}, compute);
  Step there = here.on_gpu();
  for (const auto& [begin, end] : {std::pair{0L, 1002L}, {1002L, 1003L}, {1003L, n}, {7L, 7L}}) {
    const emulated::Counters& counters = emulated::counters(0);
    const std::int64_t launches = counters.launches, allocations = counters.allocations;
    there.take(begin, end);
    CHECK(counters.launches - launches == (begin == end ? 0 : 1));
    CHECK(counters.allocations == allocations);
    here.take(begin, end);
  }
  check_same(there.state.weights, here.state.weights);
  check_same(there.state.m, here.state.m);
  check_same(there.state.v, here.state.v);
  if (compute == at::kFloat) return;
  CHECK(at::equal(there.compute_weights->cpu(), there.state.weights.cpu().to(compute)));
}

TEST_CASE("tensors that decay and others are stepped by one kernel on a GPU, each as by itself") {
  DecayRuns runs{GENERATE(true, false), {}};
  for (std::int64_t at = 5; at < n; at += 1 + at % 29) runs.changes.push_back(at);
  Step here;
  here.gradients = random_tensor({n}, at::kBFloat16);
  here.compute_weights = at::zeros({n}, at::kBFloat16);
  Step there = here.on_gpu();
  const std::int64_t launches = emulated::counters(0).launches, bytes = bytes_of("adamw");
  there.take(0, n, runs);
  CHECK(emulated::counters(0).launches - launches == 1);
  // States read and written, gradients, and compute weights: what races and overruns are looked for in.
  CHECK(bytes_of("adamw") - bytes == 28 * n);
  std::vector<std::int64_t> ends = runs.changes;
  ends.push_back(n);
  bool decays = runs.first_decays;
  for (std::int64_t begin = 0; const std::int64_t end : ends) {
    here.take(begin, end, {decays, {}});
    begin = end;
    decays = !decays;
  }
  check_same(there.state.weights, here.state.weights);
  check_same(there.state.m, here.state.m);
  check_same(there.state.v, here.state.v);
  CHECK(at::equal(there.compute_weights->cpu(), there.state.weights.cpu().to(at::kBFloat16)));
}

TEST_CASE("states on a GPU that its kernel does not take are stepped in LibTorch's operators") {
  Step here;
  here.gradients = random_tensor({n}, at::kFloat);
  here.compute_weights = at::zeros({n}, at::kFloat);
  Step there = here.on_gpu();
  there.take(0, n);
  here.take(0, n);
  CHECK(largest_error(there.state.weights.cpu(), here.state.weights) < 8 * fp32_rounding);
  CHECK(at::equal(there.compute_weights->cpu(), there.state.weights.cpu()));
}

}  // namespace llmtrain::kernels
