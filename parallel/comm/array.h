// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/element_type.h"

namespace llmtrain {

// Whose memory it is: the processor's, or the GPU's of the rank.
enum class Memory { host, device };

// Memory that a Communicator reads or writes; the caller owns it. It may lie at any address.
struct ConstArray {
  const void* data = nullptr;
  std::int64_t count = 0;  // elements
  ElementType type = ElementType::uint8;
  Memory memory = Memory::host;

  std::int64_t bytes() const { return count * element_size(type); }
};

struct Array {
  void* data = nullptr;
  std::int64_t count = 0;  // elements
  ElementType type = ElementType::uint8;
  Memory memory = Memory::host;

  std::int64_t bytes() const { return count * element_size(type); }
  operator ConstArray() const { return {data, count, type, memory}; }
};

}  // namespace llmtrain
