// SPDX-License-Identifier: Apache-2.0
// Sending tokens to experts and adding up their results as rows (kernels/moe), and as products with a mask [tokens,
// experts, places] (Lepikhin et al., arXiv 2006.16668, algorithm 2), forward and backward: dispatch_bench [TOKENS]
// [HIDDEN]
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

// What both ways return, and the gradients of what they are given.
struct Results {
  at::Tensor y, dx, dgates;
};

struct Times {
  std::vector<double> forward, backward;
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

class Comparison {
 public:
  Comparison(std::int64_t tokens, std::int64_t hidden, std::int64_t experts)
      : x_(at::randn({tokens, hidden})), dy_(at::randn({tokens, hidden})), gates_(at::rand({tokens, top_k})) {
    const std::int64_t capacity = top_k * tokens / experts;
    experts_ = kernels::top_experts(at::rand({tokens, experts}), top_k).experts;
    map_ = kernels::assign_rows(experts_, experts, capacity);
    weights_ = mask_of(map_, gates_, capacity);
    mask_ = weights_.ne(0).to(at::kFloat);
  }

  Results by_rows(Times& times) const {
    Results results;
    at::Tensor rows;
    times.forward.push_back(seconds_of([&] {
      rows = kernels::dispatch_forward(x_, map_);
      results.y = kernels::combine_forward(rows, gates_, map_);
    }));
    times.backward.push_back(seconds_of([&] {
      const kernels::CombineGradients gradients = kernels::combine_backward(dy_, rows, gates_, map_);
      results.dx = kernels::dispatch_backward(gradients.rows, map_);
      results.dgates = gradients.gates;
    }));
    return results;
  }

  Results by_products(Times& times) const {
    Results results;
    at::Tensor sent, dweights;
    times.forward.push_back(seconds_of([&] {
      sent = at::einsum("tec,th->ech", {mask_, x_});
      results.y = at::einsum("tec,ech->th", {weights_, sent});
    }));
    times.backward.push_back(seconds_of([&] {
      dweights = at::einsum("th,ech->tec", {dy_, sent});
      const at::Tensor dsent = at::einsum("tec,th->ech", {weights_, dy_});
      results.dx = at::einsum("tec,ech->th", {mask_, dsent});
    }));
    // One place of one expert is a choice's.
    results.dgates = dweights.mul(mask_).sum(2).gather(1, experts_);
    return results;
  }

 private:
  at::Tensor x_, dy_, gates_, experts_, weights_, mask_;
  kernels::ExpertRows map_;
};

bool are_close(const Results& a, const Results& b) {
  const auto close = [](const at::Tensor& left, const at::Tensor& right) { return left.allclose(right, 1e-3, 1e-4); };
  return close(a.y, b.y) && close(a.dx, b.dx) && close(a.dgates, b.dgates);
}

struct Comparisons {
  Medians forward, backward;
};

// Both ways take turns, so that slow phases of the machine meet both.
Comparisons compare(std::int64_t tokens, std::int64_t hidden, std::int64_t experts) {
  const Comparison comparison(tokens, hidden, experts);
  Times warm_up, rows, products;
  if (!are_close(comparison.by_rows(warm_up), comparison.by_products(warm_up))) {
    std::fprintf(stderr, "dispatch_bench: the results differ\n");
    std::exit(1);
  }
  for (int round = 0; round < rounds; ++round) {
    comparison.by_rows(rows);
    comparison.by_products(products);
  }
  return {{median(rows.forward), median(products.forward)}, {median(rows.backward), median(products.backward)}};
}

void print(const Medians& medians) {
  std::printf(" %9.3f ms %9.3f ms %8.0f", 1e3 * medians.rows, 1e3 * medians.products, medians.products / medians.rows);
}

}  // namespace

int main(int count, char** words) {
  const std::int64_t tokens = count > 1 ? std::atoll(words[1]) : 2048, hidden = count > 2 ? std::atoll(words[2]) : 256;
  std::printf("%8s %12s %12s %8s %12s %12s %8s\n", "experts", "rows", "products", "ratio", "rows back", "products",
              "ratio");
  for (const std::int64_t experts : {8, 16, 64, 256}) {
    const Comparisons medians = compare(tokens, hidden, experts);
    std::printf("%8lld", static_cast<long long>(experts));
    print(medians.forward);
    print(medians.backward);
    std::printf("\n");
  }
  return 0;
}
