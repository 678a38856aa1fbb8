// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/presets.h"

#include <array>
#include <cstddef>

namespace llmtrain {

const Preset& preset_of(Architecture architecture) {
  // In the order of Architecture: gpt2, gpt_rope, llama.
  static constexpr std::array<Preset, 3> presets = {{
      {Position::learned, NormKind::layernorm, 1e-5, Activation::gelu_tanh, true, true, false, true},
      {Position::rope, NormKind::layernorm, 1e-5, Activation::gelu_tanh, true, true, false, false},
      {Position::rope, NormKind::rmsnorm, 1e-5, Activation::swiglu, false, false, false, false},
  }};
  return presets[static_cast<std::size_t>(architecture)];
}

std::int64_t preset_ffn_hidden_size(Architecture architecture, std::int64_t hidden_size) {
  if (architecture != Architecture::llama) return 4 * hidden_size;
  constexpr std::int64_t multiple = 256;
  // Rounded up in integers, so that no floating-point error moves a width across a multiple.
  const auto unrounded = (8 * hidden_size + 2) / 3;
  return (unrounded + multiple - 1) / multiple * multiple;
}

}  // namespace llmtrain
