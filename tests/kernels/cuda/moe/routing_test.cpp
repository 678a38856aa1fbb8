// SPDX-License-Identifier: Apache-2.0
// Routers on the emulated GPU: what the CPU finds in float64, and nobody waits for the device.
#include "kernels/moe/routing.h"

#include <ATen/ops/equal.h>

#include <catch2/catch.hpp>

#include "kernels/host_copy.h"
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

}  // namespace llmtrain::kernels
