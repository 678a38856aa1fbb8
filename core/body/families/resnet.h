// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/body/body.h"
#include "core/body/parts/images.h"

namespace llmtrain::body {

// The residual network (He et al., arXiv 1512.03385) with group norms in place of batch norms (Wu and He, arXiv
// 1803.08494); its bottlenecks stride in their middle, as torchvision's do. An image is one row, whose features are all
// of its channels, height and width: values are [sequences, tokens, channels, height, width] of one token.

// A convolution of 7×7 to `channels`, its norm "norm", relu and a max pool of 3×3, each of which halves height and
// width, of the field "pixels" [sequences, channels, height, width].
Body resnet_stem(const ImageShape& image, std::int64_t channels, const Norm& norm, std::int64_t samples);
// Reads the input "x", as what follows does.
Body resnet_block(const ResidualConvolution& block, const ImageShape& of_x, std::int64_t samples);
// The mean of each channel, and logits [sequences, first, classes]; the second axis has one element.
Body resnet_classifier(const ImageShape& of_x, std::int64_t classes, std::int64_t samples);
// The same, with the losses [sequences, first] by the field "label".
Body resnet_classifier_loss(const ImageShape& of_x, std::int64_t classes, std::int64_t samples);

// An extent of an image behind a convolution or a pool that halves it, as those of the stem and of stages do.
constexpr std::int64_t halved(std::int64_t extent) { return (extent + 1) / 2; }

}  // namespace llmtrain::body
