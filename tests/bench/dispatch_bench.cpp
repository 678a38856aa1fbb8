// SPDX-License-Identifier: Apache-2.0
// Sending tokens to experts and adding up their results as rows (kernels/moe), and as products with a mask [tokens,
// experts, places] (Lepikhin et al., arXiv 2006.16668, algorithm 2): dispatch_bench [TOKENS] [HIDDEN]
#include <ATen/ops/einsum.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "core/base/elapsed_time.h"
#include "kernels/moe/dispatch.h"
#include "kernels/moe/expert_rows.h"

using namespace llmtrain;

namespace {

constexpr int rounds = 7;
constexpr std::int64_t top_k = 2;

template <class Work>
double seconds_of(const Work& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return seconds_since(start);
}

double median(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

struct Medians {
  double rows = 0, products = 0;
};

// The mask with the gates of the choices that have a row, at their places.
at::Tensor mask_of(const kernels::ExpertRows& map, const at::Tensor& gates, std::int64_t capacity) {
  at::Tensor mask = at::zeros({gates.size(0), map.experts(), capacity});
  for (std::int64_t expert = 0; expert < map.experts(); ++expert)
    for (std::int64_t place = 0; place < map.rows_of(expert); ++place) {
      const std::int64_t row = map.offsets[static_cast<std::size_t>(expert)] + place;
      const auto choice = map.choice_of[row].item<std::int64_t>();
      mask[choice / top_k][expert][place] = gates[choice / top_k][choice % top_k];
    }
  return mask;
}

// Both ways take turns, so that slow phases of the machine meet both.
Medians compare(std::int64_t tokens, std::int64_t hidden, std::int64_t experts) {
  const at::Tensor x = at::randn({tokens, hidden}), gates = at::rand({tokens, top_k});
  const kernels::TopExperts top = kernels::top_experts(at::rand({tokens, experts}), top_k);
  const std::int64_t capacity = top_k * tokens / experts;
  const kernels::ExpertRows map = kernels::assign_rows(top.experts, experts, capacity);
  const at::Tensor weights = mask_of(map, gates, capacity), mask = weights.ne(0).to(at::kFloat);
  at::Tensor rows_result, products_result;
  std::vector<double> rows, products;
  for (int round = 0; round <= rounds; ++round) {
    const double by_rows =
        seconds_of([&] { rows_result = kernels::combine_forward(kernels::dispatch_forward(x, map), gates, map); });
    const double by_products = seconds_of([&] {
      const at::Tensor sent = at::einsum("tec,th->ech", {mask, x});
      products_result = at::einsum("tec,ech->th", {weights, sent});
    });
    if (round == 0) continue;  // warms up
    rows.push_back(by_rows);
    products.push_back(by_products);
  }
  if (!rows_result.allclose(products_result, 1e-4, 1e-5)) {
    std::fprintf(stderr, "dispatch_bench: the results differ\n");
    std::exit(1);
  }
  return {median(rows), median(products)};
}

}  // namespace

int main(int count, char** words) {
  const std::int64_t tokens = count > 1 ? std::atoll(words[1]) : 2048, hidden = count > 2 ? std::atoll(words[2]) : 256;
  std::printf("%8s %12s %12s %8s\n", "experts", "rows", "products", "ratio");
  for (const std::int64_t experts : {8, 16, 64, 256}) {
    const Medians medians = compare(tokens, hidden, experts);
    std::printf("%8lld %9.3f ms %9.3f ms %8.0f\n", static_cast<long long>(experts), 1e3 * medians.rows,
                1e3 * medians.products, medians.products / medians.rows);
  }
  return 0;
}
