// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

#include <cstdint>
#include <vector>

#include "core/body/primitives/convolution_patches.h"
#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"
#include "kernels/accumulation_type.h"

namespace llmtrain::body {
namespace {

// A processor without units for fp16 convolves in fp32.
at::Tensor convolved_type(const at::Tensor& x) {
  return (kernels::is_widened(x) ? kernels::widened(x) : x).contiguous();
}

// Axes of [n, c, height, width] and those of [n, rows, columns, c, row, column] of its patches.
struct Patches {
  Patches(const at::Tensor& x, const at::Tensor& kernel) : cut{x.size(0), x.size(1)} {
    std::vector<std::int64_t> inner{1};
    order = {0};
    for (std::int64_t axis = 2; axis < x.dim(); ++axis) {
      const std::int64_t place = std::ssize(cut);
      cut.insert(cut.end(), {x.size(axis) / kernel.size(axis), kernel.size(axis)});
      order.push_back(place);
      count.push_back(cut[static_cast<std::size_t>(place)]);
      inner.push_back(place + 1);
    }
    order.insert(order.end(), inner.begin(), inner.end());
  }

  // [patches, elements of one], a copy.
  at::Tensor rows(const at::Tensor& x, std::int64_t elements) const {
    return x.reshape(cut).permute(order).reshape({-1, elements});
  }
  // The reverse.
  at::Tensor whole(const at::Tensor& rows_of, at::IntArrayRef shape) const {
    std::vector<std::int64_t> sizes, back(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      sizes.push_back(cut[static_cast<std::size_t>(order[i])]);
      back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
    }
    return rows_of.view(sizes).permute(back).reshape(shape);
  }

  std::vector<std::int64_t> cut, order, count;  // count: of patches along each axis
};

StepResult forward_patches(const at::Tensor& x, const at::Tensor& kernel) {
  const Patches patches(x, kernel);
  const at::Tensor flat = kernel.flatten(1);
  std::vector<std::int64_t> shape{x.size(0)};
  shape.insert(shape.end(), patches.count.begin(), patches.count.end());
  shape.push_back(kernel.size(0));
  return {patches.rows(x, flat.size(1)).mm(flat.t()).view(shape).movedim(-1, 1)};
}

StepGradients backward_patches(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& kernel,
                               const StepContext& context) {
  const Patches patches(x, kernel);
  const at::Tensor flat = kernel.flatten(1), of_type = dy.to(kernel.scalar_type());
  const at::Tensor rows = of_type.movedim(1, -1).reshape({-1, kernel.size(0)});
  StepGradients gradients(2);
  if (context.shape.has_gradient(0))
    gradients[0] = typed_gradient(context, 0, dy, patches.whole(rows.mm(flat), x.sizes()));
  if (context.shape.has_gradient(1))
    gradients[1] = typed_gradient(context, 1, dy, rows.t().mm(patches.rows(x, flat.size(1))).view(kernel.sizes()));
  return gradients;
}

}  // namespace

StepResult forward(const Convolution& convolution, const StepTensors& tensors, const StepContext& context) {
  const at::Tensor x = convolved_type(tensors.inputs[0]), kernel = convolved_type(tensors.inputs[1]);
  if (cuts_patches(convolution, context.shape)) {
    StepResult made = forward_patches(x, kernel);
    made.output = made.output.to(tensors.inputs[0].scalar_type());
    return made;
  }
  const auto windows = static_cast<std::size_t>(x.dim() - 2);
  const Convolution along = along_axes(convolution, windows);
  const std::vector<std::int64_t> none(windows, 0);
  const at::Tensor y =
      at::convolution(x, kernel, {}, along.stride, along.padding, along.dilation, false, none, along.groups);
  return {y.to(tensors.inputs[0].scalar_type())};
}

StepGradients backward(const Convolution& convolution, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context) {
  const StepShape& shape = context.shape;
  // Whichever operand's gradient is not wanted, the other operand was not kept: its shape is enough.
  const auto operand = [&](std::size_t place) {
    if (tensors.inputs[place].defined()) return convolved_type(tensors.inputs[place]);
    return convolved_type(dy.new_empty({1})).expand(extents_of(shape, shape.input(place).axes));
  };
  const at::Tensor x = operand(0), kernel = operand(1);
  if (cuts_patches(convolution, shape)) return backward_patches(dy, x, kernel, context);
  const auto windows = static_cast<std::size_t>(x.dim() - 2);
  const Convolution along = along_axes(convolution, windows);
  const std::vector<std::int64_t> none(windows, 0);
  const auto made =
      at::convolution_backward(convolved_type(dy), x, kernel, {}, along.stride, along.padding, along.dilation, false,
                               none, along.groups, {shape.has_gradient(0), shape.has_gradient(1), false});
  StepGradients gradients(2);
  if (shape.has_gradient(0)) gradients[0] = typed_gradient(context, 0, dy, std::get<0>(made));
  if (shape.has_gradient(1)) gradients[1] = typed_gradient(context, 1, dy, std::get<1>(made));
  return gradients;
}

}  // namespace llmtrain::body
