// SPDX-License-Identifier: Apache-2.0
#include "core/body/families/resnet.h"

#include <utility>
#include <vector>

#include "core/body/parts/heads.h"
#include "core/body/parts/linear.h"

namespace llmtrain::body {
namespace {

// The axes of the batch, and what images are between them and the convolutions, which read samples of channels.
class ImageBody {
 public:
  explicit ImageBody(std::int64_t samples)
      : sequences(writer.axis("sequences", samples)), token(writer.axis("tokens", 1)) {}

  TensorId x(const ImageShape& shape) {
    channels_ = writer.axis("channels", shape.channels);
    const AxisId height = writer.axis("height", shape.height), width = writer.axis("width", shape.width);
    return writer.input("x", {sequences, token, channels_, height, width});
  }
  // Both are views.
  TensorId samples_of(TensorId x) {
    return writer.merge(x, {token, channels_}, writer.axis("planes", writer.extent_of(channels_)));
  }
  Body finished(TensorId made) {
    const AxisId planes = writer.axes_of(made).at(1);
    const AxisId features = writer.axis("made_channels", writer.extent_of(planes));
    return taken(writer.split(made, planes, {token, features}));
  }
  Body taken(TensorId output) {
    writer.output(output);
    return writer.take();
  }

  BodyWriter writer{};
  AxisId sequences, token;

 private:
  AxisId channels_ = 0;
};

TensorId write_logits(ImageBody& of, const ImageShape& of_x, std::int64_t classes) {
  const TensorId mean = write_image_mean(of.writer, of.x(of_x));
  return write_classification_head(of.writer, {classes, 0}, write_first_token(of.writer, mean));
}

}  // namespace

Body resnet_stem(const ImageShape& image, std::int64_t channels, const Norm& norm, std::int64_t samples) {
  ImageBody of(samples);
  BodyWriter& writer = of.writer;
  const TensorId pixels = write_pixels(writer, of.sequences, image);
  const ConvolutionPart part{.channels = channels, .kernel = 7, .stride = 2, .padding = 3};
  const TensorId normed = write_norm(writer, "norm", norm, write_convolution(writer, "conv", part, pixels));
  const TensorId active = writer.named(writer.elementwise(ElementwiseKind::relu, {normed}), "active");
  return of.finished(
      writer.pool({.kind = PoolKind::max, .window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}}, active));
}

Body resnet_block(const ResidualConvolution& block, const ImageShape& of_x, std::int64_t samples) {
  ImageBody of(samples);
  return of.finished(write_residual_convolution(of.writer, block, of.samples_of(of.x(of_x))));
}

Body resnet_classifier(const ImageShape& of_x, std::int64_t classes, std::int64_t samples) {
  ImageBody of(samples);
  return of.taken(write_logits(of, of_x, classes));
}

Body resnet_classifier_loss(const ImageShape& of_x, std::int64_t classes, std::int64_t samples) {
  ImageBody of(samples);
  const TensorId logits = write_logits(of, of_x, classes);
  std::vector<AxisId> rows = of.writer.axes_of(logits);
  rows.pop_back();
  return of.taken(of.writer.cross_entropy(logits, of.writer.field("label", std::move(rows))));
}

}  // namespace llmtrain::body
