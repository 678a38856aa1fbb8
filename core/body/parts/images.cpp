// SPDX-License-Identifier: Apache-2.0
#include "core/body/parts/images.h"

#include <vector>

#include "core/body/parts/linear.h"

namespace llmtrain::body {
namespace {

TensorId add(BodyWriter& writer, TensorId x, TensorId y) { return writer.elementwise(ElementwiseKind::add, {x, y}); }

// Convolutions, each with its norm, and with relu but behind the last.
TensorId write_branch(BodyWriter& writer, const std::vector<ConvolutionPart>& parts, const Norm& norm, TensorId x) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    x = write_norm(writer, "norm" + number, norm, write_convolution(writer, "conv" + number, parts[i], x));
    if (i + 1 < parts.size()) x = writer.named(writer.elementwise(ElementwiseKind::relu, {x}), "active" + number);
  }
  return x;
}

std::vector<ConvolutionPart> branch_of(const ResidualConvolution& block) {
  if (!block.is_bottleneck) return {{.channels = block.channels, .stride = block.stride}, {.channels = block.channels}};
  return {{.channels = block.width, .kernel = 1, .padding = 0},
          {.channels = block.width, .stride = block.stride},
          {.channels = block.channels, .kernel = 1, .padding = 0}};
}

// The shortcut with the labels of the branch's result.
TensorId write_shortcut(BodyWriter& writer, const ResidualConvolution& block, TensorId x) {
  if (block.stride == 1 && writer.extent_of(writer.axes_of(x)[1]) == block.channels) return x;
  const ConvolutionPart part{.channels = block.channels, .kernel = 1, .stride = block.stride, .padding = 0};
  return write_norm(writer, "shortcut.norm", block.norm, write_convolution(writer, "shortcut.conv", part, x));
}

// x under the labels of another tensor of its shape.
TensorId labelled_as(BodyWriter& writer, TensorId x, TensorId other) {
  const std::vector<AxisId> from = writer.axes_of(x), to = writer.axes_of(other);
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i] != to[i]) x = writer.slice(x, from[i], to[i]);
  return x;
}

}  // namespace

TensorId write_pixels(BodyWriter& writer, AxisId samples, const ImageShape& shape) {
  const AxisId channels = writer.axis("channels", shape.channels);
  const AxisId height = writer.axis("height", shape.height);
  return writer.field("pixels", {samples, channels, height, writer.axis("width", shape.width)});
}

TensorId write_convolution(BodyWriter& writer, const std::string& name, const ConvolutionPart& part, TensorId x) {
  const AxisId channels = writer.axis(name + ".channels", part.channels);
  const AxisId height = writer.axis(name + ".kernel_height", part.kernel);
  const AxisId width = writer.axis(name + ".kernel_width", part.kernel);
  const TensorId weight = writer.parameter(name + ".weight", {channels, writer.axes_of(x).at(1), height, width});
  const Convolution convolution{.stride = {part.stride, part.stride}, .padding = {part.padding, part.padding}};
  const TensorId y = writer.convolution(convolution, x, weight);
  if (!part.has_bias) return writer.named(y, name);
  return writer.named(add(writer, y, writer.parameter(name + ".bias", {channels})), name);
}

TensorId write_patch_embedding(BodyWriter& writer, const PatchEmbeddingPart& part, AxisId samples, AxisId hidden,
                               TensorId pixels) {
  const std::vector<AxisId> image = writer.axes_of(pixels);
  const AxisId rows = writer.axis("patch_rows", part.patch), columns = writer.axis("patch_columns", part.patch);
  const TensorId weight = writer.parameter("patch.weight", {hidden, image.at(1), rows, columns});
  const TensorId cut = writer.convolution({.stride = {part.patch, part.patch}}, pixels, weight);
  const std::vector<AxisId> of_cut = writer.axes_of(cut);
  const std::int64_t count = writer.extent_of(of_cut[2]) * writer.extent_of(of_cut[3]);
  const AxisId patches = writer.axis("patches", count), tokens = writer.axis("tokens", 1 + count);
  const TensorId merged =
      writer.permute(writer.merge(cut, {of_cut[2], of_cut[3]}, patches), {samples, patches, hidden});
  const TensorId patch = writer.named(add(writer, merged, writer.parameter("patch.bias", {hidden})), "patch");
  const TensorId token = writer.parameter("class.weight", {writer.axis("class", 1), hidden});
  const TensorId joined = writer.join({writer.repeat(token, samples), patch}, tokens);
  const TensorId placed = add(writer, joined, writer.parameter("position.weight", {tokens, hidden}));
  return write_dropout(writer, "embedding", part.dropout, writer.named(placed, "sum"));
}

TensorId write_residual_convolution(BodyWriter& writer, const ResidualConvolution& block, TensorId x) {
  const TensorId branch = write_branch(writer, branch_of(block), block.norm, x);
  const TensorId shortcut = labelled_as(writer, write_shortcut(writer, block, x), branch);
  return writer.elementwise(ElementwiseKind::relu, {writer.named(add(writer, branch, shortcut), "sum")});
}

TensorId write_image_mean(BodyWriter& writer, TensorId x) {
  const std::vector<AxisId>& axes = writer.axes_of(x);
  return writer.named(writer.reduce(ReduceKind::mean, x, {axes.begin(), axes.end() - 2}), "mean");
}

}  // namespace llmtrain::body
