// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/body/body.h"

namespace llmtrain::body {

// BART (Lewis et al., arXiv 1910.13461), as transformers has it: post-norm layers of an encoder and a decoder, and
// learned positions whose first two rows no token has.
struct BartModel {
  std::int64_t hidden = 1024, heads = 16, width = 4096;
  std::int64_t vocabulary = 50265, positions = 1024;  // without the two rows
  ElementwiseKind activation = ElementwiseKind::gelu;
  bool scales_embedding = false;  // by √hidden
  double epsilon = 1e-5;
  double dropout = 0.1;
  double attention_dropout = 0;
  double activation_dropout = 0;
};

// Sums of learned rows for the field "token_ids" [sequences, tokens], in encoder and decoder alike.
Body bart_embedding(const BartModel& model, std::int64_t sequences, std::int64_t tokens);
// Layers read the input "x" [sequences, tokens, hidden]; a decoder's layer attends to "memory" [sequences, source,
// hidden], too.
Body bart_encoder_layer(const BartModel& model, std::int64_t sequences, std::int64_t tokens);
Body bart_decoder_layer(const BartModel& model, std::int64_t sequences, std::int64_t tokens, std::int64_t source);

}  // namespace llmtrain::body
