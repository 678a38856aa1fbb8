// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/body/body_writer.h"

namespace llmtrain::body {

// Parts of networks of images [samples, channels, height, width].

struct ImageShape {
  std::int64_t channels = 3, height = 224, width = 224;
};

// The field "pixels" of images.
TensorId write_pixels(BodyWriter& writer, AxisId samples, const ImageShape& shape);

// A convolution to `channels` with "<name>.weight" [channels, read channels, kernel, kernel] and perhaps
// "<name>.bias"; the padding keeps the extent where the stride is 1 and the kernel is odd.
struct ConvolutionPart {
  std::int64_t channels = 1, kernel = 3, stride = 1, padding = 1;
  bool has_bias = false;
};
TensorId write_convolution(BodyWriter& writer, const std::string& name, const ConvolutionPart& part, TensorId x);

// Images cut into square patches, each of which a linear layer "patch" makes a token, behind a learned token "class",
// and learned positions (Dosovitskiy et al., arXiv 2010.11929): [samples, tokens, hidden] of 1 +
// height/patch·width/patch tokens. The parameters are "patch.weight" [hidden, channels, patch, patch], "patch.bias",
// "class.weight" [1, hidden] and "position.weight" [tokens, hidden].
struct PatchEmbeddingPart {
  std::int64_t patch = 16;
  double dropout = 0;
};
TensorId write_patch_embedding(BodyWriter& writer, const PatchEmbeddingPart& part, AxisId samples, AxisId hidden,
                               TensorId pixels);

// A residual block of convolutions (He et al., arXiv 1512.03385) whose norms are group norms, which depend on no other
// sample: relu(shortcut(x) + f(x)). Basic: two convolutions of 3×3, the first of which strides. Bottleneck: 1×1 to
// `width`, 3×3 that strides, 1×1 to `channels`. The shortcut is x itself, or a strided 1×1 convolution with a norm
// where extents or channels differ. The parameters are "conv1.weight", "norm1.weight", "norm1.bias" and so on, and
// "shortcut.conv.weight", "shortcut.norm.weight".
struct ResidualConvolution {
  bool is_bottleneck = true;
  std::int64_t width = 64;      // of a bottleneck's middle
  std::int64_t channels = 256;  // of the result
  std::int64_t stride = 1;
  Norm norm{.kind = NormKind::group, .epsilon = 1e-5, .groups = 32};
};
TensorId write_residual_convolution(BodyWriter& writer, const ResidualConvolution& block, TensorId x);

// The mean over height and width, the last two axes.
TensorId write_image_mean(BodyWriter& writer, TensorId x);

}  // namespace llmtrain::body
