// SPDX-License-Identifier: Apache-2.0
#include "core/body/parts/relative_bias.h"

#include <catch2/catch.hpp>
#include <vector>

namespace llmtrain::body::test {
namespace {

struct Bucket {
  std::int64_t first_distance, bucket;
};

// The buckets of transformers' T5Attention from a distance of -140 on, 32 of them up to 128.
const std::vector<Bucket> of_both_sides{
    {-140, 15}, {-90, 14}, {-63, 13}, {-45, 12}, {-31, 11}, {-22, 10}, {-15, 9}, {-11, 8}, {-7, 7}, {-6, 6}, {-5, 5},
    {-4, 4},    {-3, 3},   {-2, 2},   {-1, 1},   {0, 0},    {1, 17},   {2, 18},  {3, 19},  {4, 20}, {5, 21}, {6, 22},
    {7, 23},    {8, 24},   {12, 25},  {16, 26},  {23, 27},  {32, 28},  {46, 29}, {64, 30}, {91, 31}};
const std::vector<Bucket> of_earlier_keys{{-140, 31}, {-112, 30}, {-98, 29}, {-86, 28}, {-76, 27}, {-66, 26}, {-58, 25},
                                          {-51, 24},  {-45, 23},  {-39, 22}, {-34, 21}, {-30, 20}, {-26, 19}, {-23, 18},
                                          {-20, 17},  {-18, 16},  {-15, 15}, {-14, 14}, {-13, 13}, {-12, 12}, {-11, 11},
                                          {-10, 10},  {-9, 9},    {-8, 8},   {-7, 7},   {-6, 6},   {-5, 5},   {-4, 4},
                                          {-3, 3},    {-2, 2},    {-1, 1},   {0, 0}};

void check_buckets(const RelativeBuckets& of, const std::vector<Bucket>& expected) {
  std::size_t next = 0;
  std::int64_t bucket = 0;
  for (std::int64_t distance = -140; distance <= 140; ++distance) {
    if (next < expected.size() && expected[next].first_distance == distance) bucket = expected[next++].bucket;
    INFO("distance " << distance);
    CHECK(bucket_of(of, distance) == bucket);
  }
}

}  // namespace

TEST_CASE("distances have the buckets that T5's published weights were learned with") {
  check_buckets({.sees_both_sides = true}, of_both_sides);
  check_buckets({.sees_both_sides = false}, of_earlier_keys);
}

TEST_CASE("buckets of queries and keys are those of key minus query, row by row") {
  CHECK(relative_buckets({.buckets = 8, .most_distance = 20}, 2, 3) == std::vector<std::int64_t>{0, 5, 6, 1, 0, 5});
}

}  // namespace llmtrain::body::test
