// SPDX-License-Identifier: Apache-2.0
#include "core/body/parts/relative_bias.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace llmtrain::body {

// In fp32, whose roundings decide at the ranges' ends what bucket a published model has learned for a distance.
std::int64_t bucket_of(const RelativeBuckets& of, std::int64_t distance) {
  std::int64_t buckets = of.buckets, first = 0;
  if (of.sees_both_sides) {
    buckets /= 2;
    if (distance > 0) first = buckets;
    distance = std::abs(distance);
  } else {
    distance = std::max<std::int64_t>(0, -distance);
  }
  const std::int64_t exact = buckets / 2;
  if (distance < exact) return first + distance;
  const double range = std::log(static_cast<double>(of.most_distance) / static_cast<double>(exact));
  const float part = std::log(static_cast<float>(distance) / static_cast<float>(exact)) / static_cast<float>(range) *
                     static_cast<float>(buckets - exact);
  return first + std::min(buckets - 1, exact + static_cast<std::int64_t>(part));
}

std::vector<std::int64_t> distance_buckets(const RelativeBuckets& of, std::int64_t queries, std::int64_t keys) {
  std::vector<std::int64_t> buckets;
  buckets.reserve(static_cast<std::size_t>(queries + keys));
  for (std::int64_t distance = 1 - queries; distance < keys; ++distance) buckets.push_back(bucket_of(of, distance));
  return buckets;
}

std::vector<std::int64_t> relative_buckets(const RelativeBuckets& of, std::int64_t queries, std::int64_t keys) {
  std::vector<std::int64_t> buckets;
  buckets.reserve(static_cast<std::size_t>(queries * keys));
  for (std::int64_t query = 0; query < queries; ++query)
    for (std::int64_t key = 0; key < keys; ++key) buckets.push_back(bucket_of(of, key - query));
  return buckets;
}

TensorId write_relative_bias(BodyWriter& writer, const RelativeBuckets& of, AxisId heads, AxisId queries, AxisId keys) {
  const AxisId buckets = writer.axis("buckets", of.buckets);
  const TensorId table = writer.parameter("relative_bias.weight", {buckets, heads});
  const TensorId rows = writer.gather(table, writer.field("relative_buckets", {queries, keys}));
  return writer.named(writer.permute(rows, {heads, queries, keys}), "relative_bias");
}

}  // namespace llmtrain::body
