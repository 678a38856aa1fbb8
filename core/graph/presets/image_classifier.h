// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain {

class GraphWriter;

// Models that tell the class of an image: the vision transformer (Dosovitskiy et al., arXiv 2010.11929), as
// transformers has it. All blocks are bodies:
//   embedding   patches of the pixels, each through a linear layer, behind a learned row for the image as a whole;
//               learned positions are added, and the sum is dropped
//   layers.N    attention to all rows and a feed-forward network, each behind a norm of what it reads
//   head        a norm of the first row, and logits of classes
// Of their model's keys architecture, image, layers, hidden_size, heads, ffn_hidden_size, activation (gelu or
// gelu_tanh), norm_eps, dropout, init_std and classifier matter; vocab_size and max_sequence_length follow from the
// image, and rules refuse others (core/recipe/rules/rules_images.cpp and rules_encoder.cpp).
void write_image_classifier(GraphWriter& writer);

}  // namespace llmtrain
