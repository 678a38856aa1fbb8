// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/body/body.h"

namespace llmtrain::body {

// The vision transformer (Dosovitskiy et al., arXiv 2010.11929), as transformers has it.
struct VitModel {
  std::int64_t hidden = 768, heads = 12, width = 3072;
  std::int64_t image = 224, patch = 16, channels = 3;  // images are square
  ElementwiseKind activation = ElementwiseKind::gelu;
  double epsilon = 1e-12;
  double dropout = 0;
  double attention_dropout = 0;

  std::int64_t tokens() const { return 1 + (image / patch) * (image / patch); }
};

// Makes of the field "pixels" [samples, channels, height, width] tokens [samples, tokens, hidden].
Body vit_embedding(const VitModel& model, std::int64_t samples);
// Reads the input "x" [sequences, tokens, hidden], as what follows does.
Body vit_layer(const VitModel& model, std::int64_t samples);
// The last norm, and logits [sequences, first, classes] of the class token; the second axis has one element.
Body vit_classifier(const VitModel& model, std::int64_t classes, std::int64_t samples);
// The same, with the losses [sequences, first] by the field "label".
Body vit_classifier_loss(const VitModel& model, std::int64_t classes, std::int64_t samples);

}  // namespace llmtrain::body
