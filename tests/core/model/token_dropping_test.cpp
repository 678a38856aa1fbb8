// SPDX-License-Identifier: Apache-2.0
// Which tokens are kept: any subset as likely as any other, independent draws for sequences, steps and layers.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/model/token_dropping_layer.h"

namespace llmtrain {
namespace {

constexpr std::int64_t sequence = 12, kept = 5;

PassInput micro_batch(std::int64_t step, std::int64_t first_sample, std::int64_t batch) {
  PassInput micro;
  micro.batch.rows = {{.count = batch, .length = sequence}};
  micro.context.kept_tokens = kept;
  micro.context.seed = 7;
  micro.context.step = step;
  micro.context.first_sample = first_sample;
  return micro;
}

std::vector<std::int64_t> rows_of(const PassInput& micro, std::uint64_t site) {
  const at::Tensor rows = kept_rows(micro.batch.sequences(), micro.context, site);
  return {rows.data_ptr<std::int64_t>(), rows.data_ptr<std::int64_t>() + rows.numel()};
}

// Whether a number of successes in independent trials is within five deviations of its mean.
void check_count(std::int64_t count, std::int64_t trials, double probability) {
  const double mean = static_cast<double>(trials) * probability;
  CHECK(std::abs(static_cast<double>(count) - mean) < 5 * std::sqrt(mean * (1 - probability)));
}

}  // namespace

TEST_CASE("kept rows are different ones of each sequence, in order", "[token_dropping]") {
  const std::vector<std::int64_t> rows = rows_of(micro_batch(3, 0, 50), 11);
  REQUIRE(rows.size() == 50 * kept);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CHECK(rows[i] / sequence == static_cast<std::int64_t>(i) / kept);
    if (i > 0) CHECK(rows[i] > rows[i - 1]);
  }
}

TEST_CASE("what is kept of a sequence does not depend on the micro-batch that has it", "[token_dropping]") {
  const std::vector<std::int64_t> whole = rows_of(micro_batch(3, 8, 4), 11);
  std::vector<std::int64_t> parts;
  for (std::int64_t i = 0; i < 4; ++i)
    for (const std::int64_t row : rows_of(micro_batch(3, 8 + i, 1), 11)) parts.push_back(row + i * sequence);
  CHECK(parts == whole);
  CHECK(rows_of(micro_batch(4, 8, 4), 11) != whole);
  CHECK(rows_of(micro_batch(3, 8, 4), 12) != whole);
}

TEST_CASE("all positions and pairs of positions are kept equally often, in two layers independently",
          "[token_dropping]") {
  constexpr std::int64_t draws = 20000;
  const PassInput micro = micro_batch(0, 0, draws);
  const auto flags = [&](std::uint64_t site) {
    std::vector<std::uint8_t> result(draws * sequence, 0);
    for (const std::int64_t row : rows_of(micro, site)) result[static_cast<std::size_t>(row)] = 1;
    return result;
  };
  const auto first = flags(11), second = flags(12);
  const double single = static_cast<double>(kept) / sequence;
  const double pair = single * (kept - 1) / (sequence - 1);
  const auto count = [&](const auto& a, std::int64_t i, const auto& b, std::int64_t j) {
    std::int64_t sum = 0;
    for (std::int64_t draw = 0; draw < draws; ++draw)
      sum += a[static_cast<std::size_t>(draw * sequence + i)] & b[static_cast<std::size_t>(draw * sequence + j)];
    return sum;
  };
  for (std::int64_t i = 0; i < sequence; ++i) {
    INFO("position " << i);
    check_count(count(first, i, first, i), draws, single);
    for (std::int64_t j = 0; j < i; ++j) check_count(count(first, i, first, j), draws, pair);
    check_count(count(first, i, second, i), draws, single * single);
  }
}

}  // namespace llmtrain
