// SPDX-License-Identifier: Apache-2.0
// chunk_bench [ROUNDS]: both passes of a head with its losses, of a feed-forward network, of attention that stores
// scores, of nearest neighbours and of a sparse Gaussian process, whole and in pieces, in turns. Prints the medians'
// ratios to the whole, and the bytes that are planned.
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/elapsed_time.h"
#include "core/body/body_writer.h"
#include "core/body/families/gaussian_process.h"
#include "core/body/families/nearest_neighbours.h"
#include "core/body/passes/chunking.h"
#include "core/body/run/body_run.h"

namespace llmtrain::body {
namespace {

constexpr std::int64_t tokens = 512, hidden = 128, width = 512, vocabulary = 4'096, heads = 4;

Body head() {
  BodyWriter w;
  const AxisId t = w.axis("t", tokens), h = w.axis("h", hidden), v = w.axis("v", vocabulary);
  const TensorId x = w.input("x", {t, h}), weight = w.parameter("weight", {v, h}), targets = w.field("targets", {t});
  w.output(w.cross_entropy(w.product(x, weight, {t, v}), targets));
  return w.take();
}

Body feed_forward() {
  BodyWriter w;
  const AxisId t = w.axis("t", tokens), h = w.axis("h", hidden), f = w.axis("f", width);
  const TensorId x = w.input("x", {t, h}), up = w.parameter("up", {f, h}), down = w.parameter("down", {h, f});
  w.output(w.product(w.elementwise(ElementwiseKind::gelu, {w.product(x, up, {t, f})}), down, {t, h}));
  return w.take();
}

Body attention() {
  BodyWriter w;
  const AxisId b = w.axis("b", 1), t = w.axis("t", tokens), s = w.axis("s", tokens), n = w.axis("n", heads),
               d = w.axis("d", hidden / heads);
  const TensorId query = w.input("query", {b, t, n, d}), key = w.input("key", {b, s, n, d}),
                 value = w.input("value", {b, s, n, d});
  w.output(w.attention({.stores_scores = true}, query, key, value));
  return w.take();
}

class Given final : public BodyParameters {
 public:
  explicit Given(const Body& body) {
    for (TensorId id = 0; id < body.tensors.size(); ++id) {
      const BodyTensor& tensor = body.tensors[id];
      if (tensor.role == BodyTensor::Role::made) continue;
      const bool are_numbers = tensor.name == "targets";
      tensors[id] = are_numbers ? at::randint(vocabulary, body.shape_of(id), at::kLong) : at::randn(body.shape_of(id));
      sums[id] = at::zeros(body.shape_of(id));
    }
  }
  at::Tensor weight(TensorId parameter) const override { return tensors.at(parameter); }
  void add_gradient(TensorId parameter, const at::Tensor& gradient) override { sums.at(parameter).add_(gradient); }
  std::vector<at::Tensor> of(const Body& body, BodyTensor::Role role) const {
    std::vector<at::Tensor> found;
    for (const TensorId id : body.tensors_of(role)) found.push_back(tensors.at(id));
    return found;
  }

  std::map<TensorId, at::Tensor> tensors, sums;
};

struct Variant {
  std::int64_t pieces;
  BodyRun run;
  Given given;
  std::vector<double> seconds{};
};

double pass(Variant& variant) {
  const Body& body = variant.run.body();
  const std::vector<at::Tensor> fields = variant.given.of(body, BodyTensor::Role::field);
  const auto begin = std::chrono::steady_clock::now();
  BodyRun::Output output =
      variant.run.forward(variant.given.of(body, BodyTensor::Role::input), fields, variant.given, {});
  variant.run.backward({at::ones(output.values[0].sizes())}, std::move(output.kept), fields, variant.given, {});
  return seconds_since(begin);
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

void compare(const std::string& name, const Body& body, int rounds) {
  std::vector<Variant> variants;
  for (const std::int64_t pieces : {1, 2, 4, 8}) {
    Body cut = with_least_memory(body, pieces);
    Given given(cut);
    variants.push_back(
        {pieces, {std::move(cut), Keeping::all, [](const std::string&) { return 0; }}, std::move(given)});
  }
  for (int round = 0; round <= rounds; ++round)
    for (Variant& variant : variants) {
      const double seconds = pass(variant);
      if (round > 0) variant.seconds.push_back(seconds);
    }
  constexpr ElementBytes fp32{4, 4};
  for (const Variant& variant : variants)
    std::printf("%-14s %2lld pieces: %5.2f x the time, %8.2f MiB planned\n", name.c_str(),
                static_cast<long long>(variant.pieces), median(variant.seconds) / median(variants[0].seconds),
                static_cast<double>(pass_memory(variant.run.body(), Keeping::all, fp32).peak) / (1 << 20));
}

}  // namespace
}  // namespace llmtrain::body

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 9;
  llmtrain::body::compare("head", llmtrain::body::head(), rounds);
  llmtrain::body::compare("feed-forward", llmtrain::body::feed_forward(), rounds);
  llmtrain::body::compare("attention", llmtrain::body::attention(), rounds);
  llmtrain::body::compare(
      "neighbours",
      llmtrain::body::nearest_neighbours({.points = 20'000, .features = 4, .classes = 2, .neighbours = 8}, 512),
      rounds);
  llmtrain::body::compare(
      "process", llmtrain::body::sparse_gaussian_process({.inducing = 64, .features = 4, .jitter = 1e-3}, 50'000),
      rounds);
  return 0;
}
