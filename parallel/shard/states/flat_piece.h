// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "parallel/layout/flat_shards.h"

namespace llmtrain {

// Elements [begin, end) of flat memory, of which `held` has those of `place`; a view.
inline at::Tensor piece_of(const at::Tensor& held, const FlatInterval& elements, const FlatInterval& place) {
  return held.slice(0, elements.begin - place.begin, elements.end - place.begin);
}

}  // namespace llmtrain
