// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/body/body.h"

namespace llmtrain::body {

// Writes a body step by step:
//
//   const TensorId gate = writer.product(x, writer.parameter("gate", {f, h}), {t, f});
//
// Tensors are in the order in which they are written: a compiler may evaluate two arguments in any order, so what reads
// two new parameters has them written before.
//
// What a primitive cannot take is refused at its step with Error(internal_error), which names the tensors, their axes
// and the rule; so are names that are taken.
class BodyWriter {
 public:
  AxisId axis(std::string name, std::int64_t extent);
  TensorId input(std::string name, std::vector<AxisId> axes);
  TensorId field(std::string name, std::vector<AxisId> axes);
  TensorId parameter(std::string name, std::vector<AxisId> axes);

  // Steps; each returns its result, which is called "product_3" unless named() is used.
  TensorId product(TensorId left, TensorId right, std::vector<AxisId> axes);
  TensorId elementwise(ElementwiseKind kind, std::vector<TensorId> operands);
  TensorId scale(TensorId x, double factor);
  TensorId softmax(TensorId x, AxisId axis);
  TensorId norm(const Norm& norm, TensorId x, TensorId weight, std::optional<TensorId> bias = {});
  TensorId reduce(ReduceKind kind, TensorId x, std::vector<AxisId> axes);
  TensorId permute(TensorId x, std::vector<AxisId> axes);
  TensorId merge(TensorId x, std::vector<AxisId> parts, AxisId whole);
  TensorId split(TensorId x, AxisId whole, std::vector<AxisId> parts);
  // The elements of `whole` from `begin` on under the label `part`; all of them with another label where it is as long.
  TensorId slice(TensorId x, AxisId whole, AxisId part, std::int64_t begin = 0);
  // Once for each element of `axis`, which becomes the outermost.
  TensorId repeat(TensorId x, AxisId axis);
  // Along the axis of `parts` that `whole` takes the place of: the one in which the first two of them differ.
  TensorId join(std::vector<TensorId> parts, AxisId whole);
  // `keys` and `values` of the same tokens; `bias`: of scores.
  TensorId attention(const Attention& attention, TensorId queries, TensorId keys, TensorId values,
                     std::optional<TensorId> bias = {});
  // The window axes of both results are new: axes_of() says which.
  TensorId convolution(const Convolution& convolution, TensorId x, TensorId kernel);
  TensorId pool(const Pool& pool, TensorId x);
  TensorId gather(TensorId table, TensorId numbers);
  TensorId cross_entropy(TensorId logits, TensorId targets);
  // Places of the smallest elements along the last axis of x, as many as `ranks`, which takes its place, is long.
  TensorId smallest(TensorId x, AxisId ranks);
  TensorId take(TensorId x, TensorId places);
  TensorId cholesky(TensorId x, double jitter = 0);
  TensorId triangular_solve(TensorId triangle, TensorId right);
  TensorId diagonal(TensorId x);
  TensorId dropout(double probability, TensorId x);

  // Names what a step has made: kept tensors and sites of dropout are called so.
  TensorId named(TensorId made, std::string name);
  const std::vector<AxisId>& axes_of(TensorId tensor) const { return body_.tensors[tensor].axes; }
  std::int64_t extent_of(AxisId axis) const { return body_.axes[axis].extent; }
  void output(TensorId tensor) { body_.outputs.push_back(tensor); }
  // What has been written; an output at least. This is empty then.
  Body take();

 private:
  TensorId add(BodyTensor tensor);
  TensorId step(const Primitive& primitive, std::vector<TensorId> inputs, std::vector<AxisId> axes);
  TensorId rearrange(const Rearrange& rearrange, TensorId x);
  // The axes of x, of which those from the third on are replaced by new ones of the extents.
  std::vector<AxisId> with_windows(TensorId x, const std::vector<std::int64_t>& extents);
  void require_new_name(std::string_view name) const;

  Body body_;
};

}  // namespace llmtrain::body
