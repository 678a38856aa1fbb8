// SPDX-License-Identifier: Apache-2.0
#include "core/body/parts/pairs.h"

namespace llmtrain::body {

TensorId write_squared_distances(BodyWriter& writer, TensorId points, TensorId others) {
  const AxisId rows = writer.axes_of(points).front(), columns = writer.axes_of(others).front();
  const TensorId negative = writer.scale(points, -1);
  const TensorId difference = writer.elementwise(ElementwiseKind::add, {writer.repeat(others, rows), negative});
  const TensorId squares = writer.elementwise(ElementwiseKind::multiply, {difference, difference});
  return writer.reduce(ReduceKind::sum, squares, {rows, columns});
}

}  // namespace llmtrain::body
