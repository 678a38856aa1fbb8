// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/body_writer.h"

namespace llmtrain::body {

// Squared distances [p, q] of all pairs of points [p, d] and others [q, d], as their definition has them:
// with_products_of_pairs() (core/body/passes/pairwise_distance.h) writes them without [p, q, d] elements.
TensorId write_squared_distances(BodyWriter& writer, TensorId points, TensorId others);

}  // namespace llmtrain::body
