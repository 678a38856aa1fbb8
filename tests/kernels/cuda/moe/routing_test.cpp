// SPDX-License-Identifier: Apache-2.0
// Routers on the emulated GPU: what the CPU finds in float64, and nobody waits for the device.
#include "kernels/moe/routing.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>
#include <vector>

#include "kernels/host_copy.h"
#include "kernels/moe/load_importance.h"
#include "tests/emulator/device/runtime.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {
namespace {

const at::Device gpu_device{at::kCUDA, 0};

// What the host does here it may do without the device.
template <class Make>
auto without_waits(Make make) {
  const emulated::NoSynchronisation none;
  return make();
}

struct RoutedBoth {
  Routing routing;
  at::Tensor totals, dlogits;
  RoutingSummary summary;
};

RoutedBoth route_on(const at::Device& device, const at::Tensor& logits, const at::Tensor& dgates,
                    const RoutingRules& rules, const at::Tensor& given) {
  const std::int64_t experts = logits.size(1);
  const auto there = [&](const at::Tensor& x) { return x.defined() ? x.to(device) : x; };
  const at::Tensor moved = there(logits), chosen = there(given), gradients = there(dgates);
  const auto route = [&] {
    RoutedBoth both{.routing = route_tokens(moved, rules, chosen), .totals = {}, .dlogits = {}, .summary = {}};
    const ExpertRows map = assign_rows(both.routing.tokens.experts, experts, 9);
    both.totals = routing_totals(both.routing, map);
    both.summary = routing_summary(both.totals, experts, logits.size(0), rules.k, logits.scalar_type());
    const RoutingTerms terms{.first = both.summary.first, .first_scale = 0.01, .log_sum_scale = 0.3};
    both.dlogits = route_backward(gradients, both.routing.tokens, rules, terms);
    return both;
  };
  return device.is_cpu() ? route() : without_waits(route);
}

}  // namespace

TEST_CASE("a GPU routes as a CPU does in float64, whatever its kernel takes") {
  // More experts than its kernel takes, and float64, are routed by LibTorch's operators.
  const auto [experts, k, type] = GENERATE(table<int, int, at::ScalarType>(
      {{1, 1, at::kFloat}, {8, 2, at::kFloat}, {40, 5, at::kFloat}, {600, 3, at::kFloat}, {8, 2, at::kDouble}}));
  const at::Tensor logits = random_tensor({150, experts}, type), dgates = random_tensor({150, k}, type);
  const at::Tensor others = top_experts(random_tensor({150, experts}, at::kFloat), k).experts;
  for (const bool normalizes : {false, true})
    for (const at::Tensor& given : {at::Tensor(), others}) {
      INFO(k << " of " << experts << ", normalizes " << normalizes << ", given " << given.defined());
      const RoutingRules rules{.k = k, .normalizes = normalizes, .keeps_log_sums = normalizes};
      const RoutedBoth gpu = route_on(gpu_device, logits, dgates, rules, given);
      const RoutedBoth cpu = route_on(at::kCPU, logits.to(at::kDouble), dgates.to(at::kDouble), rules, given);
      const auto [probabilities, chosen, gates, log_sums] = gpu.routing.tokens;
      if (given.defined()) CHECK(at::equal(chosen.cpu(), given));
      if (!given.defined()) CHECK(at::equal(chosen.cpu(), top_experts(probabilities.cpu(), k).experts));
      const double tolerance = 64 * fp32_rounding;
      CHECK(largest_error(probabilities.cpu(), cpu.routing.tokens.probabilities) <= tolerance);
      CHECK(largest_error(gates.cpu(), cpu.routing.tokens.gates) <= tolerance);
      CHECK(log_sums.defined() == normalizes);
      if (normalizes) CHECK(largest_error(log_sums.cpu(), cpu.routing.tokens.log_sums) <= tolerance);
      CHECK(largest_error(gpu.totals.cpu(), cpu.totals) <= 2e-5);
      CHECK(largest_error(gpu.summary.sums.cpu(), cpu.summary.sums) <= 1e-6);
      CHECK(at::equal(gpu.summary.first.cpu().to(at::kDouble), cpu.totals.narrow(0, 0, experts)));
      CHECK(largest_error(gpu.dlogits.cpu(), cpu.dlogits) <= tolerance * 8);
    }
}

TEST_CASE("a GPU routes in a kernel, describes the routing in two, and goes back in one") {
  const at::Tensor logits = random_tensor({70, 16}, at::kFloat).to(gpu_device),
                   dgates = random_tensor({70, 2}, at::kFloat).to(gpu_device);
  const RoutingRules rules{.k = 2, .normalizes = true, .keeps_log_sums = true};
  const std::int64_t before = emulated::counters(0).launches;
  const Routing routing = route_tokens(logits, rules, {});
  const ExpertRows map = assign_rows(routing.tokens.experts, 16, 7);
  const at::Tensor totals = routing_totals(routing, map);
  const RoutingSummary summary = routing_summary(totals, 16, 70, 2, at::kFloat);
  route_backward(dgates, routing.tokens, rules, {.first = summary.first});
  CHECK(emulated::counters(0).launches - before == 6);
}

namespace {

struct Varied {
  at::Tensor thresholds, sums, loss, slopes, dlogits;
};

// The loss of all tokens, and its gradient on the second of two ranks that have half of them each.
Varied vary_on(const at::Device& device, const at::Tensor& logits, const at::Tensor& noisy, const at::Tensor& experts,
               const at::Tensor& dlogits) {
  const auto own = [&](const at::Tensor& x) {
    return x.narrow(0, x.size(0) / 2, x.size(0) / 2).to(device, false, true);
  };
  const std::vector<at::Tensor> all{logits.to(device), noisy.to(device), experts.to(device)};
  const std::vector<at::Tensor> here{own(logits), own(noisy), own(experts)};
  at::Tensor gradient = own(dlogits);
  const at::Tensor before = at::ones({3}, at::kDouble).to(device), losses = at::zeros({6}, at::kDouble).to(device);
  const auto vary = [&] {
    const LoadImportanceTokens whole = load_importance(all[0], all[1], all[2], 0.3);
    const LoadImportanceTokens part = load_importance(here[0], here[1], here[2], 0.3);
    const at::Tensor sums = with_load_importance(before, whole).narrow(0, 3, 2 * logits.size(1));
    const at::Tensor slopes = load_importance_loss(sums, part.kept, losses[1]);
    add_load_importance_gradient_(gradient, part.kept, slopes, here[2], 0.7);
    return Varied{part.kept.thresholds, sums, losses, slopes, gradient};
  };
  return device.is_cpu() ? vary() : without_waits(vary);
}

}  // namespace

TEST_CASE("a GPU's load-importance loss is the CPU's in float64, whatever its kernel takes") {
  // More experts than its kernel takes, and float64, take LibTorch's operators.
  const auto [experts, k, type] = GENERATE(table<int, int, at::ScalarType>(
      {{1, 1, at::kFloat}, {8, 2, at::kFloat}, {40, 5, at::kFloat}, {600, 3, at::kFloat}, {8, 2, at::kDouble}}));
  const at::Tensor logits = random_tensor({150, experts}, type),
                   noisy = logits + 0.3 * random_tensor({150, experts}, type);
  const at::Tensor chosen = top_experts(noisy, k).experts, dlogits = random_tensor({150, experts}, type);
  const Varied gpu = vary_on(gpu_device, logits, noisy, chosen, dlogits);
  const Varied cpu = vary_on(at::kCPU, logits.to(at::kDouble), noisy.to(at::kDouble), chosen, dlogits.to(at::kDouble));
  CHECK(at::equal(gpu.thresholds.cpu().to(at::kDouble), cpu.thresholds));
  CHECK(gpu.slopes.scalar_type() == type);
  CHECK(largest_error(gpu.sums.cpu(), cpu.sums) <= 2e-5);
  CHECK(largest_error(gpu.loss.cpu(), cpu.loss) <= 1e-6);
  CHECK(largest_error(gpu.slopes.cpu(), cpu.slopes) <= 1e-6);
  CHECK(largest_error(gpu.dlogits.cpu(), cpu.dlogits) <= 1e-6);
}

TEST_CASE("a GPU has the load-importance loss in three kernels, and its gradient in one") {
  const at::Tensor logits = random_tensor({70, 16}, at::kFloat).to(gpu_device), totals = at::zeros({6}, at::kDouble);
  const at::Tensor there = totals.to(gpu_device), chosen = top_experts(logits, 2).experts;
  at::Tensor dlogits = logits.clone();
  const std::int64_t before = emulated::counters(0).launches;
  const LoadImportanceTokens tokens = load_importance(logits, logits, chosen, 0.1);
  const at::Tensor sums = with_load_importance(there, tokens).narrow(0, 6, 32);
  const at::Tensor slopes = load_importance_loss(sums, tokens.kept, there[1]);
  CHECK(emulated::counters(0).launches - before == 3);
  add_load_importance_gradient_(dlogits, tokens.kept, slopes, chosen, 1);
  CHECK(emulated::counters(0).launches - before == 4);
}

}  // namespace llmtrain::kernels
