// SPDX-License-Identifier: Apache-2.0
#include "core/body/parts/linear.h"

#include <algorithm>
#include <optional>

namespace llmtrain::body {

TensorId write_linear(BodyWriter& writer, const Linear& linear, TensorId x) {
  std::vector<AxisId> of_weight = linear.to, of_result;
  of_weight.insert(of_weight.end(), linear.from.begin(), linear.from.end());
  for (const AxisId axis : writer.axes_of(x))
    if (std::ranges::find(linear.from, axis) == linear.from.end()) of_result.push_back(axis);
  of_result.insert(of_result.end(), linear.to.begin(), linear.to.end());
  const TensorId weight = writer.parameter(linear.name + ".weight", of_weight);
  const TensorId y = writer.product(x, weight, of_result);
  if (!linear.has_bias) return writer.named(y, linear.name);
  writer.named(y, linear.name + ".product");
  const TensorId bias = writer.parameter(linear.name + ".bias", linear.to);
  return writer.named(writer.elementwise(ElementwiseKind::add, {y, bias}), linear.name);
}

TensorId write_norm(BodyWriter& writer, const std::string& name, const Norm& norm, TensorId x) {
  const std::vector<AxisId>& axes = writer.axes_of(x);
  const AxisId weighted = norm.kind == NormKind::group ? axes.at(1) : axes.back();
  const TensorId weight = writer.parameter(name + ".weight", {weighted});
  std::optional<TensorId> bias;
  if (norm.kind != NormKind::root_mean_square) bias = writer.parameter(name + ".bias", {weighted});
  return writer.named(writer.norm(norm, x, weight, bias), name);
}

TensorId write_dropout(BodyWriter& writer, const std::string& name, double probability, TensorId x) {
  if (probability == 0) return x;
  return writer.named(writer.dropout(probability, x), name + ".dropout");
}

}  // namespace llmtrain::body
