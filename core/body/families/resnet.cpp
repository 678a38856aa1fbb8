// SPDX-License-Identifier: Apache-2.0
#include "core/body/families/resnet.h"

#include "core/body/parts/heads.h"
#include "core/body/parts/linear.h"

namespace llmtrain::body {
namespace {

TensorId write_x(BodyWriter& writer, const ImageShape& shape, std::int64_t count) {
  const AxisId samples = writer.axis("samples", count), channels = writer.axis("channels", shape.channels);
  const AxisId height = writer.axis("height", shape.height), width = writer.axis("width", shape.width);
  return writer.input("x", {samples, channels, height, width});
}

}  // namespace

Body resnet_stem(const ImageShape& image, std::int64_t channels, const Norm& norm, std::int64_t samples) {
  BodyWriter writer;
  const TensorId pixels = write_pixels(writer, writer.axis("samples", samples), image);
  const ConvolutionPart part{.channels = channels, .kernel = 7, .stride = 2, .padding = 3};
  const TensorId normed = write_norm(writer, "norm", norm, write_convolution(writer, "conv", part, pixels));
  const TensorId active = writer.named(writer.elementwise(ElementwiseKind::relu, {normed}), "active");
  writer.output(writer.pool({.kind = PoolKind::max, .window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}, active));
  return writer.take();
}

Body resnet_block(const ResidualConvolution& block, const ImageShape& of_x, std::int64_t samples) {
  BodyWriter writer;
  writer.output(write_residual_convolution(writer, block, write_x(writer, of_x, samples)));
  return writer.take();
}

Body resnet_classifier(const ImageShape& of_x, std::int64_t classes, std::int64_t samples) {
  BodyWriter writer;
  const TensorId mean = write_image_mean(writer, write_x(writer, of_x, samples));
  writer.output(write_classification_head(writer, {classes, 0}, mean));
  return writer.take();
}

}  // namespace llmtrain::body
