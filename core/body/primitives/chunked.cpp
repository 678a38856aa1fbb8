// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/chunked.h"

#include <algorithm>

#include "core/body/body.h"
#include "core/body/pass_memory.h"
#include "core/body/step_shape.h"

namespace llmtrain::body {
namespace {

// Elements of what pieces of operands take beside the operands, as if all of them were copied; places count as two.
double copied_elements(const Body& piece, const Chunked& chunked, std::size_t operands) {
  double elements = 0;
  for (TensorId id = 0; id < operands; ++id)
    if (piece.tensors[id].has(chunked.axis)) elements += (piece.tensors[id].is_index ? 2 : 1) * elements_of(piece, id);
  return elements;
}

// Sums over pieces, in the type of sums: of what lacks the axis.
double summed_inputs(const Chunked& chunked, const StepShape& shape) {
  double elements = 0;
  for (std::size_t i = 0; i < shape.inputs(); ++i)
    if (shape.input(i).role != BodyTensor::Role::parameter && shape.has_gradient(i) &&
        !shape.input_has(i, chunked.axis))
      elements += 2 * shape.input_elements(i);
  return elements;
}

}  // namespace

bool Chunked::operator==(const Chunked& other) const {
  return axis == other.axis && pieces == other.pieces && *body == *other.body;
}

std::int64_t piece_extent(const Chunked& chunked, std::int64_t extent) {
  return std::max<std::int64_t>(1, (extent + chunked.pieces - 1) / chunked.pieces);
}

void check(const Chunked& chunked, const StepShape& shape) {
  const Body& inner = *chunked.body;
  if (chunked.pieces < 1) shape.refuse("there is one piece at least");
  if (inner.axes != shape.body().axes || inner.outputs.size() != 1 || inner.steps.empty())
    shape.refuse("its steps have the axes of the body around them, and one output");
  if (inner.tensors.size() != shape.inputs() + inner.steps.size())
    shape.refuse("its steps read so many tensors as it has operands");
  for (std::size_t i = 0; i < shape.inputs(); ++i)
    if (inner.tensors[i].axes != shape.input(i).axes) shape.refuse("its steps read operands with their axes");
  if (inner.tensors[inner.outputs[0]].axes != shape.output().axes) shape.refuse("the result is that of its steps");
}

AxisUse axis_use(const Chunked& chunked, const StepShape& /*shape*/, AxisId axis) {
  const Body& inner = *chunked.body;
  const auto is_independent = [&](const Step& step) {
    return body::axis_use(inner, step, axis) == AxisUse::independent && inner.tensors[step.output].has(axis);
  };
  return std::ranges::all_of(inner.steps, is_independent) ? AxisUse::independent : AxisUse::whole;
}

// All pieces together do the work of the whole. The backward does that of the forward as well.
Work work(const Chunked& chunked, const StepShape& shape) {
  Work all;
  for (const Step& step : chunked.body->steps) {
    const Work of_step = body::work(*chunked.body, step);
    if (of_step.product.flops() > all.product.flops()) all.product = of_step.product;
    all.forward_flops += of_step.forward_flops;
    all.backward_flops += of_step.forward_flops + of_step.backward_flops;
    all.forward_elements += of_step.forward_elements;
    all.backward_elements += of_step.forward_elements + of_step.backward_elements;
  }
  const Body piece = with_extents(*chunked.body, {{chunked.axis, piece_extent(chunked, shape.extent(chunked.axis))}});
  constexpr ElementBytes computed{1, 0}, sums{0, 1};
  const auto peak = [&](const ElementBytes& counted) {
    return static_cast<double>(pass_memory(piece, Keeping::all, counted).peak);
  };
  const double copied = copied_elements(piece, chunked, shape.inputs()),
               of_result = elements_of(piece, piece.outputs[0]);
  const bool is_summed = !shape.output_has(chunked.axis);
  all.forward_working = copied + static_cast<double>(forward_memory(piece, computed));
  all.forward_temporaries =
      static_cast<double>(forward_memory(piece, sums)) + (is_summed ? 2 * shape.output_elements() : 0);
  all.backward_working = copied + of_result + peak(computed);
  all.backward_temporaries = peak(sums) + summed_inputs(chunked, shape);
  return all;
}

Kept kept(const Chunked& /*chunked*/, const StepShape& shape) {
  Kept result;
  if (!shape.output().has_gradient) return result;
  for (std::size_t i = 0; i < shape.inputs(); ++i)
    if (!shape.input(i).is_given()) result.inputs.push_back(i);
  return result;
}

}  // namespace llmtrain::body
