// SPDX-License-Identifier: Apache-2.0
// The examples of Artemev et al. (arXiv 2206.14148) with a million points, whose matrices of pairs no limit would hold:
// both passes keep to the bytes that were planned, and these to the limit.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "core/body/families/gaussian_process.h"
#include "core/body/families/nearest_neighbours.h"
#include "core/body/passes/chunking.h"
#include "kernels/onednn/matmul.h"
#include "tests/core/body/memory/measured_memory.h"

namespace llmtrain::body::test {
namespace {

constexpr ElementBytes fp32{4, 4};
constexpr std::int64_t million = 1'000'000, mebibyte = 1 << 20;

// In pieces, with a limit below a third of what it needs whole.
ChunkedWithin cut_within(const Body& body, std::int64_t limit) {
  const std::int64_t whole = pass_memory(body, Keeping::all, fp32).peak;
  const ChunkedWithin cut = chunked_within(body, limit, fp32);
  INFO("whole " << whole / mebibyte << " MiB, in " << cut.pieces << " pieces " << cut.peak / mebibyte << " of "
                << limit / mebibyte);
  CHECK(whole > 3 * limit);
  CHECK(cut.peak <= limit);
  return cut;
}

void check_kept_to(const MeasuredPasses& measured, const ChunkedWithin& cut) {
  INFO("measured " << measured.peak / mebibyte);
  if (kernels::has_onednn()) CHECK(measured.peak <= cut.peak);
  CHECK(2 * measured.peak > cut.peak);
}

}  // namespace

TEST_CASE("the nearest of a million points are found within a limit") {
  const NearestNeighbours model{.points = million, .features = 4, .classes = 2, .neighbours = 8, .temperature = 1'000};
  constexpr std::int64_t queries = 64;
  const ChunkedWithin cut = cut_within(nearest_neighbours(model, queries), 128 * mebibyte);
  // Whole numbers, of which fp32 has all squared distances without an error: many are equal.
  const auto whole = [](std::vector<std::int64_t> shape) { return (random_tensor(shape, at::kFloat) * 100).round(); };
  const at::Tensor labels = random_tensor({million, model.classes}, at::kFloat);
  GivenTensors given(cut.body, {labels}, at::kFloat);
  const at::Tensor asked = whole({queries, model.features}), points = whole({million, model.features});
  given.tensors.at(cut.body.tensor_named("queries")) = asked;
  given.tensors.at(cut.body.tensor_named("points")) = points;
  const MeasuredPasses measured = measured_passes(cut.body, given);
  check_kept_to(measured, cut);

  for (const std::int64_t query : {0, 37, 63}) {
    INFO(query);
    const at::Tensor distances = (points - asked[query]).to(at::kDouble).square().sum(1);
    const auto [nearest, places] = at::sort(distances, true, 0, false);
    const at::Tensor weights = at::softmax(nearest.narrow(0, 0, model.neighbours) / -model.temperature, 0);
    const at::Tensor shares = at::mv(labels.to(at::kDouble).index_select(0, places.narrow(0, 0, 8)).t(), weights);
    CHECK(distance(measured.value[query], shares) <= 1e-6);
  }
}

TEST_CASE("a Gaussian process of a million points keeps to a limit") {
  const GaussianProcess model{.inducing = 32, .features = 4, .jitter = 1e-3};
  const ChunkedWithin cut = cut_within(sparse_gaussian_process(model, million), 160 * mebibyte);
  const GivenTensors given(cut.body, {random_tensor({1, million}, at::kFloat)}, at::kFloat);
  const MeasuredPasses measured = measured_passes(cut.body, given);
  check_kept_to(measured, cut);
  CHECK(std::isfinite(measured.value.item<float>()));
}

}  // namespace llmtrain::body::test
