// SPDX-License-Identifier: Apache-2.0
#include "core/body/families/nearest_neighbours.h"

#include "core/body/parts/pairs.h"
#include "core/body/passes/pairwise_distance.h"

namespace llmtrain::body {

Body nearest_neighbours(const NearestNeighbours& model, std::int64_t queries) {
  BodyWriter w;
  const AxisId q = w.axis("queries", queries), n = w.axis("points", model.points);
  const AxisId d = w.axis("features", model.features), c = w.axis("classes", model.classes);
  const AxisId k = w.axis("neighbours", model.neighbours);
  const TensorId asked = w.input("queries", {q, d}), points = w.parameter("points", {n, d});
  const TensorId labels = w.field("labels", {n, c});
  const TensorId distances = w.named(write_squared_distances(w, asked, points), "distances");
  const TensorId nearest = w.named(w.smallest(distances, k), "nearest");
  const TensorId scores = w.scale(w.take(distances, nearest), -1 / model.temperature);
  const TensorId weights = w.named(w.softmax(scores, k), "weights");
  w.output(w.named(w.product(weights, w.gather(labels, nearest), {q, c}), "shares"));
  return with_products_of_pairs(w.take());
}

}  // namespace llmtrain::body
