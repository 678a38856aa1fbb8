// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain {

// How the keys and values of texts that grow are kept.
enum class KeyValueType {
  compute,  // as the model computes with them
  int8,     // rounded, with a scale for each token and head
  fp8,      // likewise, to E4M3
};

}  // namespace llmtrain
