// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/convolution.h"

#include <string>

#include "core/body/primitives/convolution_patches.h"
#include "core/body/step_shape.h"

namespace llmtrain::body {
namespace {

constexpr std::size_t first_window = 2;

std::size_t windows_of(const StepShape& shape) { return shape.input(0).axes.size() - first_window; }

void check_channels(const Convolution& convolution, const StepShape& shape) {
  const std::vector<AxisId>&x = shape.input(0).axes, &kernel = shape.input(1).axes, &y = shape.output().axes;
  if (x[0] != y[0] || kernel[0] != y[1]) shape.refuse("the result has the samples' axis and the kernel's first one");
  if (convolution.groups == 1) {
    if (x[1] != kernel[1]) shape.refuse("the kernel reads the channels of what it is applied to");
    return;
  }
  if (convolution.groups < 1 || shape.extent(kernel[0]) % convolution.groups != 0 ||
      shape.extent(kernel[1]) * convolution.groups != shape.extent(x[1]))
    shape.refuse("groups divide the channels, and each kernel reads those of its group");
}

// Samples, channels and windows: no two axes that a convolution tells apart are one.
void check_windows(const Convolution& along, const StepShape& shape) {
  for (std::size_t i = 0; i < windows_of(shape); ++i) {
    if (along.stride[i] < 1 || along.padding[i] < 0 || along.dilation[i] < 1)
      shape.refuse("strides and dilations are 1 at least, and padding is not negative");
    const std::int64_t extent = convolved_extent(along, i, shape.extent(shape.input(0).axes[first_window + i]),
                                                 shape.extent(shape.input(1).axes[first_window + i]));
    if (extent < 1) shape.refuse("the kernel is longer than what it is applied to");
    if (extent != shape.extent(shape.output().axes[first_window + i]))
      shape.refuse("the result is " + std::to_string(extent) + " long along " +
                   shape.axis_name(shape.output().axes[first_window + i]));
  }
}

double window_elements(const StepShape& shape, const BodyTensor& tensor) {
  double product = 1;
  for (std::size_t i = first_window; i < tensor.axes.size(); ++i)
    product *= static_cast<double>(shape.extent(tensor.axes[i]));
  return product;
}

}  // namespace

Convolution along_axes(const Convolution& convolution, std::size_t axes) {
  Convolution result = convolution;
  if (result.stride.empty()) result.stride.assign(axes, 1);
  if (result.padding.empty()) result.padding.assign(axes, 0);
  if (result.dilation.empty()) result.dilation.assign(axes, 1);
  return result;
}

std::int64_t convolved_extent(const Convolution& along_axes, std::size_t axis, std::int64_t extent,
                              std::int64_t kernel_extent) {
  const std::int64_t reach = along_axes.dilation[axis] * (kernel_extent - 1) + 1;
  const std::int64_t padded = extent + 2 * along_axes.padding[axis];
  return padded < reach || along_axes.stride[axis] < 1 ? 0 : (padded - reach) / along_axes.stride[axis] + 1;
}

bool cuts_patches(const Convolution& convolution, const StepShape& shape) {
  const Convolution along = along_axes(convolution, windows_of(shape));
  for (std::size_t i = 0; i < windows_of(shape); ++i) {
    const std::int64_t window = shape.extent(shape.input(1).axes[first_window + i]);
    const bool is_cut = along.stride[i] == window && along.padding[i] == 0 && along.dilation[i] == 1;
    if (!is_cut || shape.extent(shape.input(0).axes[first_window + i]) % window != 0) return false;
  }
  return convolution.groups == 1;
}

void check(const Convolution& convolution, const StepShape& shape) {
  shape.require_inputs(2, 2);
  const std::size_t axes = shape.input(0).axes.size();
  if (axes < first_window + 1 || axes > first_window + 3)
    shape.refuse("it is of samples, channels and one to three window axes");
  if (shape.input(1).axes.size() != axes || shape.output().axes.size() != axes)
    shape.refuse("operand, kernel and result have as many axes");
  const Convolution along = along_axes(convolution, windows_of(shape));
  for (const auto* numbers : {&along.stride, &along.padding, &along.dilation})
    if (numbers->size() != windows_of(shape)) shape.refuse("each window axis has a stride, a padding and a dilation");
  check_channels(convolution, shape);
  check_windows(along, shape);
}

AxisUse axis_use(const Convolution& convolution, const StepShape& shape, AxisId axis) {
  if (axis == shape.input(0).axes[0]) return AxisUse::independent;
  const bool has_groups = convolution.groups > 1;
  if (axis == shape.output().axes[1]) return has_groups ? AxisUse::whole : AxisUse::independent;
  if (axis == shape.input(0).axes[1]) return has_groups ? AxisUse::whole : AxisUse::summed;
  return shape.input_has(1, axis) ? AxisUse::whole : AxisUse::window;
}

Work work(const Convolution& convolution, const StepShape& shape) {
  const auto groups = static_cast<double>(convolution.groups);
  const std::vector<AxisId>& kernel = shape.input(1).axes;
  const ProductSize size{
      static_cast<double>(shape.extent(shape.output().axes[0])) * window_elements(shape, shape.output()),
      static_cast<double>(shape.extent(kernel[0])) / groups,
      static_cast<double>(shape.extent(kernel[1])) * window_elements(shape, shape.input(1)), groups};
  Work work = work_of_products(size, shape);
  if (cuts_patches(convolution, shape)) work.forward_temporaries = work.backward_temporaries = shape.input_elements(0);
  return work;
}

Kept kept(const Convolution& /*convolution*/, const StepShape& shape) { return kept_operands(shape); }

}  // namespace llmtrain::body
