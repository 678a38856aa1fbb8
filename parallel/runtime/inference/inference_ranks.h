// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain {

// How the ranks of a model that is not trained divide it. They are threads of one process, each with a device.
struct InferenceRanks {
  std::int64_t tensor = 1;    // share each layer
  std::int64_t pipeline = 1;  // share the layers

  std::int64_t count() const { return tensor * pipeline; }
};

}  // namespace llmtrain
