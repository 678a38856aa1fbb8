// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/recipe/recipe.h"

namespace llmtrain {

// The defaults that `model.architecture` selects; each key can be overridden.
struct Preset {
  Position position{};
  NormKind norm{};
  double norm_eps = 0;
  Activation activation{};
  bool bias = false;
  bool qkv_bias = false;
  bool qk_norm = false;
  bool tie_embeddings = false;
};

const Preset& preset_of(Architecture architecture);

// gpt2 and gpt-rope: 4·hidden. llama: 8·hidden/3, rounded up to a multiple of 256 (Touvron et al., arXiv 2302.13971).
std::int64_t preset_ffn_hidden_size(Architecture architecture, std::int64_t hidden_size);

}  // namespace llmtrain
