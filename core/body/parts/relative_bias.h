// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/body/body_writer.h"

namespace llmtrain::body {

// A learned bias of attention's scores by how far a key lies from its query (Raffel et al., arXiv 1910.10683, section
// 2.1): half of the buckets hold a distance each, the others ranges that grow with the logarithm up to `most_distance`,
// behind which all is one. Where keys may follow their query, half of each kind are for these.
struct RelativeBuckets {
  std::int64_t buckets = 32;
  std::int64_t most_distance = 128;
  bool sees_both_sides = true;  // false: of causal attention, whose later keys share the bucket of the query itself

  bool operator==(const RelativeBuckets&) const = default;
};

// The bucket of key − query.
std::int64_t bucket_of(const RelativeBuckets& of, std::int64_t distance);
// Those of all distances from 1 − queries to keys − 1.
std::vector<std::int64_t> distance_buckets(const RelativeBuckets& of, std::int64_t queries, std::int64_t keys);
// [queries, keys], row by row: the field that write_relative_bias() reads.
std::vector<std::int64_t> relative_buckets(const RelativeBuckets& of, std::int64_t queries, std::int64_t keys);

// [heads, queries, keys] of the field "relative_buckets" [queries, keys] and the parameter
// "relative_bias.weight" [buckets, heads].
TensorId write_relative_bias(BodyWriter& writer, const RelativeBuckets& of, AxisId heads, AxisId queries, AxisId keys);

}  // namespace llmtrain::body
