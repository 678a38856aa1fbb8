// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/element_type.h"

namespace llmtrain {

// Where memory is: on the host or on the rank's GPU.
enum class Memory { host, device };

// Memory that a Communicator reads or writes; owned by the caller. No alignment is required.
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
