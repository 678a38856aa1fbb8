// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace llmtrain {

// Memory that is in use from one moment to another, both included. Moments are numbers of any origin: only their order
// counts. Two buffers may share bytes if one's last use is before the other's first.
struct Buffer {
  std::int64_t bytes = 0;
  std::int64_t first = 0, last = 0;

  bool operator==(const Buffer&) const = default;
};

}  // namespace llmtrain
