// SPDX-License-Identifier: Apache-2.0
// Cross-entropy on a GPU, emulated here with the project's kernel, against float64.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/stack.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/cross_entropy.h"
#include "tests/emulator/torch/backend.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {
namespace {

const at::Device gpu{at::kCUDA, 0};
constexpr std::int64_t rows = 7, columns = 1301;
constexpr double scale = 0.25;

struct Case {
  explicit Case(at::ScalarType type) : logits(random_tensor({rows, columns}, at::kFloat).mul(4).to(type)) {}
  at::Tensor logits;
  at::Tensor targets = at::arange(rows, at::kLong).mul_(columns - 1).div_(rows - 1, "floor");  // first and last, too

  at::Tensor losses() const { return at::cross_entropy_loss(logits.to(at::kDouble), targets, {}, 0); }
  at::Tensor gradient() const {
    return (logits.to(at::kDouble).softmax(1) - at::one_hot(targets, columns).to(at::kDouble)) * scale;
  }
};

// The error of a loss up to about 20, which is fp32 for every type.
constexpr double loss_tolerance = 5e-7;

// The error of a gradient, which is at most `scale` and rounded once.
double gradient_tolerance(at::ScalarType type) {
  if (type == at::kFloat) return 1e-6 * scale;
  return (type == at::kHalf ? fp16_rounding : bf16_rounding) * scale;
}

struct Use {
  std::int64_t launches = emulated::counters(0).launches, allocations = emulated::counters(0).allocations;
  Use since() const {
    return {emulated::counters(0).launches - launches, emulated::counters(0).allocations - allocations};
  }
};

}  // namespace

TEST_CASE("losses on a GPU and the gradient in place of logits are one kernel and no memory beside") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const Case c(type);
  const at::Tensor logits = c.logits.to(gpu), targets = c.targets.to(gpu);
  at::Tensor gradient = logits.clone();
  const Use before;
  const at::Tensor losses = cross_entropy_forward_backward_(gradient, targets, scale);
  const Use used = before.since();
  CHECK((used.launches == 1 && used.allocations == 1));  // of the losses
  const at::Tensor without = cross_entropy_forward(logits, targets);
  CHECK(before.since().launches == 2);
  CHECK(losses.scalar_type() == at::kFloat);
  CHECK(at::equal(without.cpu(), losses.cpu()));
  CHECK(largest_error(losses.cpu(), c.losses()) < loss_tolerance);
  CHECK(largest_error(gradient.cpu(), c.gradient()) < gradient_tolerance(type));
  CHECK(at::equal(logits.cpu(), c.logits));
}

TEST_CASE("slices of the vocabulary on a GPU give the losses and gradients of the whole, each by two kernels") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const Case c(type);
  const at::Tensor targets = c.targets.to(gpu);
  const std::vector<std::int64_t> bounds{0, 1, 700, columns, columns};  // a single column, and at the end none
  std::vector<at::Tensor> parts, statistics;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    parts.push_back(c.logits.slice(1, bounds[i], bounds[i + 1]).to(gpu).contiguous());
    const Use before;
    statistics.push_back(cross_entropy_statistics(parts[i], targets, {bounds[i], columns}));
    CHECK(before.since().launches == 1);
  }
  const at::Tensor whole = join_cross_entropy_statistics(at::stack(statistics));
  CHECK(largest_error(cross_entropy_losses(whole).cpu(), c.losses()) < loss_tolerance);
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const Use before;
    cross_entropy_backward_(parts[i], targets, {bounds[i], columns}, whole, scale);
    CHECK(before.since().launches == (parts[i].numel() > 0 ? 1 : 0));
    gradients.push_back(parts[i].cpu());
  }
  CHECK(largest_error(at::cat(gradients, 1), c.gradient()) < gradient_tolerance(type));
}

TEST_CASE("logits with gaps on a GPU are changed in place, too") {
  const Case c(at::kFloat);
  const at::Tensor wide = at::cat({c.logits, c.logits}, 1).to(gpu);
  at::Tensor view = wide.narrow(1, 0, columns);
  const at::Tensor losses = cross_entropy_forward_backward_(view, c.targets.to(gpu), scale);
  CHECK(largest_error(losses.cpu(), c.losses()) < loss_tolerance);
  CHECK(largest_error(wide.cpu().narrow(1, 0, columns), c.gradient()) < gradient_tolerance(at::kFloat));
  CHECK(at::equal(wide.cpu().narrow(1, columns, columns), c.logits));
}

}  // namespace llmtrain::kernels
