// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain {

class GraphWriter;

// Models that tell the class of an image, all of whose blocks are bodies. The vision transformer (Dosovitskiy et al.,
// arXiv 2010.11929), as transformers has it:
//   embedding   patches of the pixels, each through a linear layer, behind a learned row for the image as a whole;
//               learned positions are added, and the sum is dropped
//   layers.N    attention to all rows and a feed-forward network, each behind a norm of what it reads
//   head        a norm of the first row, and logits of classes
// Of their model's keys architecture, image, layers, hidden_size, heads, ffn_hidden_size, activation (gelu or
// gelu_tanh), norm_eps, dropout, init_std and classifier matter; vocab_size and max_sequence_length follow from the
// image, and rules refuse others (core/recipe/rules/rules_images.cpp and rules_encoder.cpp).
//
// The residual network (He et al., arXiv 1512.03385) with group norms (Wu and He, arXiv 1803.08494), otherwise as
// torchvision's resnet has it, its first weights included (kernels by He et al., arXiv 1502.01852, of their fan out):
//   embedding   a convolution of 7×7, its norm, relu and a max pool of 3×3, each of which halves height and width
//   layers.N    residual blocks, stage by stage; the first of a stage but the first one halves height and width
//   head        the mean of each channel, and logits of classes
// Of its model's keys architecture, image, resnet, norm_eps, init_std and classifier matter.
void write_image_classifier(GraphWriter& writer);

}  // namespace llmtrain
