// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/collective.h"
#include "parallel/plan/inference/device_split.h"
#include "parallel/plan/inference/layer_shape.h"

namespace llmtrain {

// A collective within a layer. `elements` are those of the whole tensor of one group, which a device holds after a
// gather or before a scatter: it sends (ranks − 1) ÷ ranks of them. Of an all-to-all they are those of one device.
struct SplitExchange {
  Collective collective{};
  std::int64_t ranks = 1;
  std::int64_t stride = 1;  // between the group's devices, of which those of one z are neighbours
  double elements = 0;
  bool of_weights = false;
};

// What devices exchange in one half of a layer for so many tokens of all devices (Pope et al., arXiv 2211.05102,
// section 3.2). Over all exchanges the elements of a network with two matrices, width E to F and back, of T tokens are
//   1d                 2·T·E
//   2d                 2·T·(E ÷ x + F ÷ yz)
//   gathered over N    2·E·F·N ÷ n + 2·T·E ÷ N, without the second term where N = n
// Here a gated network's first product has 2·F features, and three matrices.
std::vector<SplitExchange> half_exchanges(const DeviceSplit& split, double width, const HalfShape& half, double tokens);

// What the whole layer exchanges. Halves with one input gather it once and scatter their sum once. Attention that is
// split by sequences sends queries, keys and values to them and its results back (section 3.3).
std::vector<SplitExchange> layer_exchanges(const DeviceSplit& split, const LayerShape& shape, double tokens,
                                           std::int64_t sequences);

}  // namespace llmtrain
