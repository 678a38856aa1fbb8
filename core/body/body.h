// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/body/facts.h"
#include "core/body/primitives/attention.h"
#include "core/body/primitives/chains/elementwise_chain.h"
#include "core/body/primitives/chunked.h"
#include "core/body/primitives/convolution.h"
#include "core/body/primitives/cross_entropy.h"
#include "core/body/primitives/dropout.h"
#include "core/body/primitives/elementwise.h"
#include "core/body/primitives/gather.h"
#include "core/body/primitives/join.h"
#include "core/body/primitives/matrices/cholesky.h"
#include "core/body/primitives/matrices/diagonal.h"
#include "core/body/primitives/matrices/triangular_solve.h"
#include "core/body/primitives/norm.h"
#include "core/body/primitives/pool.h"
#include "core/body/primitives/product.h"
#include "core/body/primitives/rearrange.h"
#include "core/body/primitives/reduce.h"
#include "core/body/primitives/selection/smallest.h"
#include "core/body/primitives/selection/take.h"
#include "core/body/primitives/softmax.h"

namespace llmtrain::body {

// A body is what a block computes: a short list of primitives over tensors with labelled axes, which is priced
// (core/graph/operators/body_operators.h) and run (core/body/run). It is data, which core/body/passes may rewrite to a
// body with the same result. A BodyWriter makes one and checks its shapes.

using Primitive = std::variant<Product, Elementwise, ElementwiseChain, Softmax, Norm, Reduce, Gather, Rearrange, Join,
                               Dropout, Convolution, Pool, Attention, CrossEntropy, Cholesky, TriangularSolve, Diagonal,
                               Smallest, Take, Chunked>;

struct BodyTensor {
  enum class Role {
    input,      // a value of an earlier block, whose gradient the body returns
    field,      // of the samples: no gradient
    parameter,  // its gradient is added to that of other micro-batches
    made,       // by a step
  };
  std::string name;
  std::vector<AxisId> axes;  // outermost first, each at most once
  Role role = Role::made;
  bool has_gradient = false;  // whether it depends on an input or on a parameter, other than by places
  bool is_index = false;      // int64, made by a step: places, and never a gradient

  // To both passes, so that it is never kept.
  bool is_given() const { return role == Role::field || role == Role::parameter; }
  bool has(AxisId axis) const { return std::ranges::find(axes, axis) != axes.end(); }

  bool operator==(const BodyTensor&) const = default;
};

struct Step {
  Primitive primitive;
  std::vector<TensorId> inputs;
  TensorId output = 0;

  bool operator==(const Step&) const = default;
};

struct Body {
  std::vector<Axis> axes;
  std::vector<BodyTensor> tensors;  // those that steps make in the order of the steps
  std::vector<Step> steps;          // each after those whose results it reads
  std::vector<TensorId> outputs;    // in the order of the block's outputs

  std::vector<TensorId> tensors_of(BodyTensor::Role role) const;  // ascending
  std::vector<std::int64_t> shape_of(TensorId tensor) const;
  // Throws Error(internal_error), with the names that there are, where there is none of this.
  TensorId tensor_named(std::string_view name) const;
  AxisId axis_named(std::string_view name) const;

  bool operator==(const Body&) const = default;
};

// The body with other extents of some axes. Throws Error(internal_error) where a step cannot have them, as one that
// merges or convolves an axis whose result has an extent of its own.
Body with_extents(Body body, const std::map<AxisId, std::int64_t>& extents);
// Throws Error(internal_error) where the step's primitive does not fit its tensors, with their names and the rule.
void check(const Body& body, const Step& step);

// "product", as names and messages have it.
std::string_view name_of(const Primitive& primitive);

// How a step of the body uses an axis; independent where nothing of it has the axis.
AxisUse axis_use(const Body& body, const Step& step, AxisId axis);
Work work(const Body& body, const Step& step);
Kept kept(const Body& body, const Step& step);
// Whether the result lies in the memory of the step's first input.
bool is_view(const Body& body, const Step& step);
// Whether the results are places along an axis, int64 without a gradient.
bool makes_places(const Primitive& primitive);
double elements_of(const Body& body, TensorId tensor);
// Whether the step adds the parameter's gradient itself, piece by piece, so that it never has it as a whole.
bool comes_in_pieces(const Step& step, const BodyTensor& parameter);

}  // namespace llmtrain::body
