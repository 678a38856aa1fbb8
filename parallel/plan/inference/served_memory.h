// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/inference/pass_price.h"

namespace llmtrain {

// Bytes of the fullest device.
struct ServedMemory {
  double weights = 0;
  double cache = 0;    // of all sequences, as long as they become
  double working = 0;  // activations of the larger pass, and weights that it gathers

  double sum() const { return weights + cache + working; }
};

ServedMemory served_memory(const Graph& graph, const PassPricer& pricer, const DeviceSplit& prefill_split,
                           const ServedPass& prefill, const DeviceSplit& decode_split, const ServedPass& last_token);

}  // namespace llmtrain
