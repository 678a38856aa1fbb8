// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/body/body.h"

namespace llmtrain::body {

// Classification by the nearest of labelled points, each of which counts by its distance: neighbourhood components
// (Goldberger et al., NIPS 2004) of the k nearest alone, so that what makes the queries can be trained with it.
struct NearestNeighbours {
  std::int64_t points = 0, features = 0, classes = 0;
  std::int64_t neighbours = 1;
  double temperature = 1;  // by which squared distances are divided; the higher, the more alike neighbours count
};

// Reads the input "queries" [queries, features], the parameter "points" [points, features], and the field "labels"
// [points, classes], how much of each class a point is. Makes for each query the share of each class
// [queries, classes]: the mean of its neighbours' labels, weighted by the softmax of −distance² ÷ temperature.
// Distances are products (with_products_of_pairs). Steps along "queries" are independent of each other, so that in
// pieces (core/body/passes/chunking.h) queries × points elements are never there.
Body nearest_neighbours(const NearestNeighbours& model, std::int64_t queries);

}  // namespace llmtrain::body
